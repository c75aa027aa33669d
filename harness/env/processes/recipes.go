package processes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"stampede/docker"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// recipesOf says how to run a service as processes: one, or one a broker.
func (p Provider) recipesOf(
	ctx context.Context, service sut.Service, spec env.Spec,
) ([]recipe, error) {
	program, err := find(ctx, service, spec)
	if err != nil {
		return nil, err
	}
	var r recipe
	switch service {
	case sut.Postgres:
		r, err = postgresRecipe(program, spec)
	case sut.Replica:
		r, err = replicaRecipe(program, spec)
	case sut.Redis:
		r, err = redisRecipe(program, spec.Redis)
	case sut.Kafka:
		if program.Name == kfakeName {
			r, err = kfakeRecipe(program, spec)
			break
		}
		return kafkaRecipes(program, spec, p.BrokerFlags)
	default:
		err = fmt.Errorf("local processes cannot provide %s", service)
	}
	return []recipe{r}, err
}

// initBound is how long a tool of a store may take; initdb takes about a second.
const initBound = time.Minute

// replicaRecipe is that of Postgres, but for what it begins with: a copy of its primary.
func replicaRecipe(program Program, spec env.Spec) (recipe, error) {
	r, err := postgresRecipe(program, spec)
	if err == nil && !slices.Contains(spec.Services, sut.Postgres) {
		err = admin.ErrNoPrimary
	}
	follows := admin.NewPrimary()
	r.service, r.store, r.primary = sut.Replica, admin.ReplicaAt, follows
	r.prepare = func(ctx context.Context, dir string) error {
		addr, err := follows.Addr(ctx)
		if err != nil {
			return err
		}
		if err := baseBackup(ctx, program, r.who, dir, addr); err != nil {
			return err
		}
		path := filepath.Join(dir, "postgresql.conf")
		conf, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the primary's configuration: %w", err)
		}
		return writeConf(path, admin.ReplicaConf(conf), r.who)
	}
	return r, err
}

// baseBackup makes a standby's copy of the primary at an address.
func baseBackup(
	ctx context.Context, program Program, who *syscall.Credential, dir, primary string,
) error {
	// As with initdb, what is not flushed yet the server flushes.
	return runTool(ctx, who, dir, "pg_basebackup of "+primary,
		filepath.Join(filepath.Dir(program.Path), "pg_basebackup"),
		"-d", admin.ConnInfo(primary), "-D", dir, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
}

// runTool runs a tool that makes a store's folder, in it. What says what for.
func runTool(
	ctx context.Context, who *syscall.Credential, dir, what, path string, args ...string,
) error {
	ctx, cancel := context.WithTimeout(ctx, initBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: who}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, out)
	}
	return nil
}

func postgresRecipe(program Program, spec env.Spec) (recipe, error) {
	base, settings := docker.PostgresConf, spec.Postgres
	if slices.Contains(spec.Services, sut.Replica) {
		base = admin.PrimaryConf(base)
	}
	conf, err := admin.PostgresConf(base, settings)
	if err != nil {
		return recipe{}, err
	}
	who, err := servant("postgres")
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		service: sut.Postgres, program: program, who: who, orderly: syscall.SIGINT,
		// Of a Postgres that is killed, shared memory stays with the kernel, and of its
		// segments there are 4,096 by default.
		last:     syscall.SIGQUIT,
		settings: slices.Sorted(maps.Keys(settings)),
		prepare: func(ctx context.Context, dir string) error {
			if err := initdb(ctx, program, who, dir); err != nil {
				return err
			}
			return writeConf(filepath.Join(dir, "postgresql.conf"), conf, who)
		},
		command: func(dir string, port int) (*exec.Cmd, error) {
			return exec.Command(program.Path, "-D", dir, "-p", strconv.Itoa(port),
				"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="), nil
		},
		store: admin.PostgresAt,
	}, nil
}

// initdb makes a new cluster of databases in dir.
func initdb(ctx context.Context, program Program, who *syscall.Credential, dir string) error {
	// The new cluster is worthless until the server has run on it, so that
	// it need not be flushed; the server itself flushes what it commits.
	return runTool(ctx, who, dir, "initdb in "+dir,
		filepath.Join(filepath.Dir(program.Path), "initdb"),
		"-D", dir, "-U", admin.Superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
}

func redisRecipe(program Program, settings map[string]string) (recipe, error) {
	conf, err := admin.RedisConf(docker.RedisConf, settings)
	if err != nil {
		return recipe{}, err
	}
	who, err := servant("redis", "valkey")
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		service: sut.Redis, program: program, who: who, orderly: syscall.SIGTERM,
		last:     syscall.SIGKILL,
		settings: slices.Sorted(maps.Keys(settings)),
		prepare: func(_ context.Context, dir string) error {
			return writeConf(filepath.Join(dir, "redis.conf"), conf, who)
		},
		command: func(dir string, port int) (*exec.Cmd, error) {
			return exec.Command(program.Path, filepath.Join(dir, "redis.conf"),
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir), nil
		},
		store: admin.RedisAt,
	}, nil
}

func writeConf(path string, conf []byte, who *syscall.Credential) error {
	if err := os.WriteFile(path, conf, 0o600); err != nil {
		return fmt.Errorf("write a configuration: %w", err)
	}
	return own(path, who)
}
