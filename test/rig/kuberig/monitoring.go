package kuberig

import (
	"context"
	"path/filepath"

	"github.com/quoin-hpc/quoin/test/rig/modules"
)

// monitoringCRDs is the folder of the CRDs in the source of the Prometheus Operator.
const monitoringCRDs = "example/prometheus-operator-crd"

var monitoringModule = modules.Module{Name: "prometheusoperator", Source: "github.com/prometheus-operator/prometheus-operator", Keep: []string{monitoringCRDs}}

// ApplyMonitoringCRDs makes the types PodMonitor and PrometheusRule known, from the files of the
// Prometheus Operator, and waits until the API server has them.
func (c *Cluster) ApplyMonitoringCRDs(ctx context.Context) error {
	dir, err := monitoringModule.Folder(ctx)
	if err != nil {
		return err
	}
	var paths []string
	for _, name := range []string{"podmonitors", "prometheusrules"} {
		paths = append(paths, filepath.Join(dir, monitoringCRDs, "monitoring.coreos.com_"+name+".yaml"))
	}
	return c.Objects().Apply(ctx, paths...)
}
