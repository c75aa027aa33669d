package envtest_test

import (
	"os"
	"testing"

	"stampede/harness/env/envtest"
	"stampede/harness/sut"
)

var stores = envtest.NewShared(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

func TestSharedStores(t *testing.T) {
	first, second := stores.Namespace(t), stores.Namespace(t)
	if first.PostgresURL == second.PostgresURL || first.Prefix == second.Prefix {
		t.Errorf("two namespaces are the same place: %+v, %+v", first, second)
	}
	if stores.Cluster(t) != stores.Cluster(t) {
		t.Error("the stores are not shared")
	}
}

func TestStart(t *testing.T) {
	cluster := envtest.Start(t, sut.Redis)
	if err := cluster.Component(sut.Redis).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
