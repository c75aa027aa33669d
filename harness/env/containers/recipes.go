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
	service sut.Service
	port    string // in the container, empty for a broker
	// data is where its volume is mounted.
	data    string
	environ map[string]string
	// command starts the store with fsync as the configuration has it; the
	// images' own defaults, and testcontainers' modules, turn it off.
	command []string
	// entry replaces what the image would run, if set.
	entry    []string
	conf     []byte
	store    func(addr func() string) admin.Store
	settings []string
	// files are mounted beside the configuration, by their paths.
	files map[string][]byte
	// primary is what a replica is a copy of, nil for others.
	primary *admin.Primary
	// kafka is what only a broker has, else nil.
	kafka *admin.KafkaBroker
}

// confPath is where the configuration lies in the container.
const confPath = "/etc/stampede/run.conf"

// sharedMemory is /dev/shm of a container, in bytes; Postgres keeps the
// segments of parallel queries there.
const sharedMemory = 256 << 20

// recipesOf says how to run a service: in one container, or in one a broker.
func recipesOf(service sut.Service, spec env.Spec, brokerFlags []string) ([]recipe, error) {
	var r recipe
	var err error
	switch service {
	case sut.Postgres:
		r, err = postgresRecipe(spec)
	case sut.Replica:
		r, err = replicaRecipe(spec)
	case sut.Redis:
		r, err = redisRecipe(spec.Redis)
	case sut.Kafka:
		return kafkaRecipes(spec, brokerFlags)
	default:
		err = fmt.Errorf("containers cannot provide %s", service)
	}
	return []recipe{r}, err
}

// hba admits everybody who reaches the port, which is published on the loopback address of one
// machine. The image's own rules do not admit replicas.
const (
	hbaPath = "/etc/stampede/pg_hba.conf"
	hba     = "local all all trust\nhost all all all trust\nhost replication all all trust\n"
)

func postgresRecipe(spec env.Spec) (recipe, error) {
	r := recipe{
		service: sut.Postgres, port: "5432", data: "/stampede",
		environ: map[string]string{
			"POSTGRES_USER": admin.Superuser, "POSTGRES_DB": "postgres",
			// The port is published on the loopback address of one machine.
			"POSTGRES_HOST_AUTH_METHOD": "trust",
			"POSTGRES_INITDB_ARGS":      "--encoding=UTF8 --locale=C",
			"PGDATA":                    "/stampede/pgdata",
		},
		command:  []string{"postgres", "-c", "config_file=" + confPath, "-c", "listen_addresses=*"},
		store:    admin.PostgresAt,
		settings: slices.Sorted(maps.Keys(spec.Postgres)),
	}
	base := docker.PostgresConf
	if slices.Contains(spec.Services, sut.Replica) {
		base = admin.PrimaryConf(base)
		r.files = map[string][]byte{hbaPath: []byte(hba)}
		r.command = append(r.command, "-c", "hba_file="+hbaPath)
	}
	var err error
	r.conf, err = admin.PostgresConf(base, spec.Postgres)
	return r, err
}

// primaryVariable has how a replica connects to its primary.
const primaryVariable = "STAMPEDE_PRIMARY"

// replicaScript copies the primary into an empty volume and becomes its standby: the script's
// arguments.
const replicaScript = `set -e
mkdir -p "$PGDATA"
chown postgres:postgres "$PGDATA"
chmod 0700 "$PGDATA"
as="setpriv --reuid=postgres --regid=postgres --init-groups"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  $as pg_basebackup -d "$` + primaryVariable + `" -D "$PGDATA" -R -X stream --checkpoint=fast --no-sync
fi
exec $as "$@"`

// replicaRecipe is that of Postgres, but for what it begins with.
func replicaRecipe(spec env.Spec) (recipe, error) {
	r, err := postgresRecipe(spec)
	if err == nil && !slices.Contains(spec.Services, sut.Postgres) {
		err = admin.ErrNoPrimary
	}
	r.service, r.store, r.primary = sut.Replica, admin.ReplicaAt, admin.NewPrimary()
	r.conf = admin.ReplicaConf(r.conf)
	r.entry = []string{"/bin/sh", "-c", replicaScript, "replica"}
	return r, err
}

func redisRecipe(settings map[string]string) (recipe, error) {
	conf, err := admin.RedisConf(docker.RedisConf, settings)
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		service: sut.Redis, port: "6379", data: "/data", conf: conf,
		command:  []string{"redis-server", confPath, "--bind", "0.0.0.0", "--dir", "/data"},
		store:    admin.RedisAt,
		settings: slices.Sorted(maps.Keys(settings)),
	}, nil
}
