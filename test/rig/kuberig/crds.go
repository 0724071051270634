package kuberig

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/quoin-hpc/quoin/test/rig/modules"
)

// CRDs are kinds of a project whose programs do not run.
type CRDs struct {
	module modules.Module // its one kept folder has the files
	files  []string
}

var (
	// Kueue has the kinds that a site writes for Kueue.
	Kueue = CRDs{
		modules.Module{Name: "kueue", Source: "sigs.k8s.io/kueue", Keep: []string{"config/components/crd/bases"}},
		[]string{"kueue.x-k8s.io_topologies.yaml", "kueue.x-k8s.io_resourceflavors.yaml", "kueue.x-k8s.io_clusterqueues.yaml", "kueue.x-k8s.io_localqueues.yaml"},
	}
	// Monitoring has the kinds of the Prometheus Operator: PodMonitor and PrometheusRule.
	Monitoring = CRDs{
		modules.Module{Name: "prometheusoperator", Source: "github.com/prometheus-operator/prometheus-operator", Keep: []string{"example/prometheus-operator-crd"}},
		[]string{"monitoring.coreos.com_podmonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml"},
	}
)

// ApplyCRDs makes kinds known from the files of their project, and waits until the API server has them.
func (c *Cluster) ApplyCRDs(ctx context.Context, kinds CRDs) error {
	dir, err := kinds.module.Folder(ctx)
	if err != nil {
		return err
	}
	var paths []string
	for _, file := range kinds.files {
		paths = append(paths, filepath.Join(dir, kinds.module.Keep[0], file))
	}
	return c.Objects().Apply(ctx, paths...)
}

// ApplyComputeDomainCRDs makes the types ComputeDomain and ComputeDomainClique
// known, from the driver's own files, and waits until they are served.
func (c *Cluster) ApplyComputeDomainCRDs(ctx context.Context) error {
	crds, _, err := DriverObjects(ctx, c.Driver)
	if err != nil {
		return err
	}
	if err := c.Objects().Apply(ctx, crds); err != nil {
		return fmt.Errorf("apply CRDs: %w", err)
	}
	return nil
}
