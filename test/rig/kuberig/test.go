package kuberig

import (
	"context"
	"os"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/need"
	"github.com/quoin-hpc/quoin/test/rig/slots"
)

// StartTest gives the test an API server that has nothing but what every new one has. If a
// lender runs, the API server is lent: others had it before, and the test must not stop it.
// A short run skips the test; an API server that does not start fails it.
func StartTest(t testing.TB) *Cluster {
	t.Helper()
	return startTest(t, func(ctx context.Context, dir string) (*Cluster, error) {
		if socket := os.Getenv(Lender); socket != "" {
			return borrow(ctx, socket, dir)
		}
		return Start(ctx, dir)
	})
}

// StartOwnTest is StartTest for a test that stops its API server, or counts from its start.
func StartOwnTest(t testing.TB) *Cluster {
	t.Helper()
	return startTest(t, Start)
}

// StartPodGroupsTest is StartOwnTest with an API server and a scheduler that know PodGroups and
// their topology constraints.
func StartPodGroupsTest(t testing.TB) *Cluster {
	t.Helper()
	return startTest(t, func(ctx context.Context, dir string) (*Cluster, error) {
		return startCluster(ctx, dir, true)
	})
}

func startTest(t testing.TB, start func(ctx context.Context, dir string) (*Cluster, error)) *Cluster {
	t.Helper()
	NeedTest(t)
	slots.Take(t, slots.APIServer)
	c, err := start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// NeedTest skips the test in a short run, and fails it if the programs are not installed. A test that
// uses Kubernetes' programs and not StartTest calls it.
func NeedTest(t testing.TB) {
	t.Helper()
	need.Rig(t, "Kubernetes", Build)
}
