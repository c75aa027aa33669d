package containers

import (
	"fmt"
	"maps"
	"slices"

	"stampede/docker"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// recipe is what is particular about one kind of store in a container.
type recipe struct {
	port string // in the container
	// data is where its volume is mounted.
	data    string
	environ map[string]string
	// command starts the store with fsync as the configuration has it; the
	// images' own defaults, and testcontainers' modules, turn it off.
	command  []string
	conf     []byte
	store    func(addr func() string) admin.Store
	settings []string
}

// confPath is where the configuration lies in the container.
const confPath = "/etc/stampede/run.conf"

// sharedMemory is /dev/shm of a container, in bytes; Postgres keeps the
// segments of parallel queries there.
const sharedMemory = 256 << 20

func recipeOf(service sut.Service, spec env.Spec) (recipe, error) {
	switch service {
	case sut.Postgres:
		return postgresRecipe(spec.Postgres)
	case sut.Redis:
		return redisRecipe(spec.Redis)
	default:
		return recipe{}, fmt.Errorf("containers cannot provide %s", service)
	}
}

func postgresRecipe(settings map[string]string) (recipe, error) {
	conf, err := admin.PostgresConf(docker.PostgresConf, settings)
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		port: "5432", data: "/stampede", conf: conf,
		environ: map[string]string{
			"POSTGRES_USER": admin.Superuser, "POSTGRES_DB": "postgres",
			// The port is published on the loopback address of one machine.
			"POSTGRES_HOST_AUTH_METHOD": "trust",
			"POSTGRES_INITDB_ARGS":      "--encoding=UTF8 --locale=C",
			"PGDATA":                    "/stampede/pgdata",
		},
		command:  []string{"postgres", "-c", "config_file=" + confPath, "-c", "listen_addresses=*"},
		store:    admin.PostgresAt,
		settings: slices.Sorted(maps.Keys(settings)),
	}, nil
}

func redisRecipe(settings map[string]string) (recipe, error) {
	conf, err := admin.RedisConf(docker.RedisConf, settings)
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		port: "6379", data: "/data", conf: conf,
		command:  []string{"redis-server", confPath, "--bind", "0.0.0.0", "--dir", "/data"},
		store:    admin.RedisAt,
		settings: slices.Sorted(maps.Keys(settings)),
	}, nil
}
