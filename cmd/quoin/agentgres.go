package main

import (
	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// gresDevices returns in which order slurmd has a node's devices.
func gresDevices(g *config.Gres) func(n *topology.Node) []topology.GRESDevice {
	o := slurmconf.GresOptions{Naming: slurmconf.GresNaming(g.GresNaming), Types: g.GresTypes}
	return func(n *topology.Node) []topology.GRESDevice {
		if g.GresAutodetect == slurmconf.AutoDetectNvidia || g.GresAutodetect == slurmconf.AutoDetectNVML {
			return n.GRESDevicesDetected(g.GresAutodetect, o.TypeOf)
		}
		return n.GRESDevicesBy(o.TypeOf)
	}
}
