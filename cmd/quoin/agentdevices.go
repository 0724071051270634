package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// idSources returns the sources of DCGM's ids of the GPUs. The first one is asked
// first.
func idSources(c *config.DCGM, log *slog.Logger) ([]nodeagent.IDSource, error) {
	var out []nodeagent.IDSource
	if c.DCGMHostEngine != "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find own program: %w", err)
		}
		out = append(out, nodeagent.NewHostEngine(c.DCGMHostEngine, []string{self, "probe-dcgm", "--host-engine", c.DCGMHostEngine}, log))
	}
	if c.DCGMExporter != "" {
		out = append(out, nodeagent.NewExporter(c.DCGMExporter))
	}
	return out, nil
}

// gresDevices returns the function that puts a node's devices into slurmd's order.
func gresDevices(g *config.Gres) func(n *topology.Node) []topology.GRESDevice {
	o := slurmconf.GresOptions{Naming: slurmconf.GresNaming(g.GresNaming), Types: g.GresTypes}
	return func(n *topology.Node) []topology.GRESDevice {
		if g.GresAutodetect == slurmconf.AutoDetectNvidia || g.GresAutodetect == slurmconf.AutoDetectNVML {
			return n.GRESDevicesDetected(g.GresAutodetect, o.TypeOf)
		}
		return n.GRESDevicesBy(o.TypeOf)
	}
}
