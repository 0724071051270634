package imexrig

import (
	"context"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/need"
)

// StartTest starts a cluster with the whole control plane, the driver's controller
// in the namespace of the options, and a fleet. All of it ends with the test. A
// short run skips the test.
func StartTest(t testing.TB, o Options) (*kuberig.Cluster, *Fleet) {
	t.Helper()
	kuberig.NeedTest(t)
	need.Root(t)
	start := kuberig.StartTest
	if o.Own {
		start = kuberig.StartOwnTest
	}
	c := start(t)
	c.Driver = o.Driver
	for _, start := range []func(context.Context) error{c.ApplyComputeDomainCRDs, c.ApplyDeviceClasses, c.StartControllerManager, c.StartScheduler,
		func(ctx context.Context) error {
			return c.StartComputeDomainController(ctx, o.DriverNamespace, o.gates()...)
		}} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Start(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}
