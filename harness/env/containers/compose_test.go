package containers

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"stampede/docker"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// composeDir is where compose.yaml lies, from this folder.
const composeDir = "../../../docker"

// composed is a service in docker/compose.yaml.
type composed struct {
	Image       string            `yaml:"image"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	ShmSize     string            `yaml:"shm_size"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Healthcheck struct {
		Test     []string `yaml:"test"`
		Interval string   `yaml:"interval"`
		Retries  int      `yaml:"retries"`
	} `yaml:"healthcheck"`
}

func readCompose(t *testing.T) map[sut.Service]composed {
	t.Helper()
	text, err := os.ReadFile(composeDir + "/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Name     string                   `yaml:"name"`
		Services map[sut.Service]composed `yaml:"services"`
		Volumes  map[string]any           `yaml:"volumes"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// TestComposeIsWhatRunsStart: the stores of docker/compose.yaml are those that
// a run starts, in all but where their data lies.
func TestComposeIsWhatRunsStart(t *testing.T) {
	services := readCompose(t)
	confs := map[sut.Service]struct {
		file string
		text []byte
	}{
		sut.Postgres: {"postgres/postgresql.conf", docker.PostgresConf},
		sut.Redis:    {"redis/redis.conf", docker.RedisConf},
	}
	if len(services) != len(confs)+1 {
		t.Errorf("compose.yaml has %d services, want %d and kafka", len(services), len(confs))
	}
	for service, conf := range confs {
		got := services[service]
		recipes, err := recipesOf(service, env.Spec{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := recipes[0]
		image := "${" + imageVariable(service) + ":-" + images[service].official + "}"
		if got.Image != image {
			t.Errorf("%s: image %s, want %s", service, got.Image, image)
		}
		if !slices.Equal(got.Command, r.command) {
			t.Errorf("%s: command %q, want %q", service, got.Command, r.command)
		}
		delete(got.Environment, "POSTGRES_DB") // it needs a user's database as well
		delete(r.environ, "POSTGRES_DB")
		if !maps.Equal(got.Environment, r.environ) {
			t.Errorf("%s: environment %v, want %v", service, got.Environment, r.environ)
		}
		volumes := []string{"./" + conf.file + ":" + confPath + ":ro", string(service) + ":" + r.data}
		if !slices.Equal(got.Volumes, volumes) {
			t.Errorf("%s: volumes %q, want %q", service, got.Volumes, volumes)
		}
		if text, err := os.ReadFile(composeDir + "/" + conf.file); err != nil ||
			!bytes.Equal(text, conf.text) {
			t.Errorf("%s: %s is not what runs use: %v", service, conf.file, err)
		}
		if len(got.Ports) != 1 || !strings.HasPrefix(got.Ports[0], "127.0.0.1:") ||
			!strings.HasSuffix(got.Ports[0], ":"+r.port) {
			t.Errorf("%s: ports %q, want %s on the loopback address alone", service, got.Ports, r.port)
		}
		if h := got.Healthcheck; len(h.Test) < 2 || h.Test[0] != "CMD" || h.Retries < 1 {
			t.Errorf("%s: health check %+v", service, h)
		}
	}
}

// TestComposedBroker: the broker of docker/compose.yaml has the committed
// configuration and what a run appends to it. It listens for the published port
// on every address of its container, and tells the loopback address.
func TestComposedBroker(t *testing.T) {
	got := readCompose(t)[sut.Kafka]
	image := "${" + imageVariable(sut.Kafka) + ":-" + images[sut.Kafka].official + "}"
	if got.Image != image {
		t.Errorf("image %s, want %s", got.Image, image)
	}
	broker := admin.KafkaBroker{Node: 1, Voters: []string{"127.0.0.1:59093"},
		Direct: "127.0.0.1:59092", Data: kafkaData + "/log"}
	conf, err := admin.KafkaConf(docker.KafkaConf, sut.DefaultKafka(), broker)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.Split(strings.Join(got.Command, ""), "\n")
	for line := range strings.Lines(string(bytes.TrimPrefix(conf, docker.KafkaConf))) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "listeners=DIRECT://127.0.0.1"); ok {
			line = "listeners=DIRECT://0.0.0.0" + rest
		}
		if line != "" && !slices.Contains(script, line) {
			t.Errorf("the script has no line %s", line)
		}
	}
	volumes := []string{"./kafka/server.properties:/etc/stampede/base.conf:ro", "kafka:" + kafkaData}
	ports := []string{"127.0.0.1:59092:59092"}
	if !slices.Equal(got.Volumes, volumes) || !slices.Equal(got.Ports, ports) {
		t.Errorf("volumes %q, ports %q", got.Volumes, got.Ports)
	}
	text, err := os.ReadFile(composeDir + "/kafka/server.properties")
	if err != nil || !bytes.Equal(text, docker.KafkaConf) {
		t.Errorf("server.properties is not what runs use: %v", err)
	}
}
