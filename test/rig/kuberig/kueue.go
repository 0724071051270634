package kuberig

import (
	"context"
	"path/filepath"

	"github.com/quoin-hpc/quoin/test/rig/modules"
)

// kueueCRDs is the folder of the CRDs in the source of Kueue.
const kueueCRDs = "config/components/crd/bases"

var kueueModule = modules.Module{Name: "kueue", Source: "sigs.k8s.io/kueue", Keep: []string{kueueCRDs}}

// ApplyKueueCRDs makes the kinds known that a site writes for Kueue, from the files of Kueue, and
// waits until the API server has them. Kueue itself does not run.
func (c *Cluster) ApplyKueueCRDs(ctx context.Context) error {
	dir, err := kueueModule.Folder(ctx)
	if err != nil {
		return err
	}
	var paths []string
	for _, name := range []string{"topologies", "resourceflavors", "clusterqueues", "localqueues"} {
		paths = append(paths, filepath.Join(dir, kueueCRDs, "kueue.x-k8s.io_"+name+".yaml"))
	}
	return c.Objects().Apply(ctx, paths...)
}
