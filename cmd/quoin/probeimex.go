package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex/local"
	"github.com/quoin-hpc/quoin/topology"
)

// imexPatience is the most that a reading of a running probe waits for
// nvidia-imex-ctl, for NVML's facts and samples wait with it.
const imexPatience = 500 * time.Millisecond

// newIMEXReader returns the reader of what the machine itself says of IMEX. With
// again it is read again and again.
func newIMEXReader(c *config.Machine, again bool) *local.Reader {
	options := local.Options{Root: c.HostRoot, Cgroups: c.CgroupRoot}
	if again {
		options.Patience = imexPatience
	}
	return local.New(options)
}

// addIMEX adds what the machine itself says of IMEX.
func addIMEX(n *topology.Node, reader *local.Reader) {
	inClique := slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool {
		_, is := g.Fabric.Clique()
		return is
	})
	facts, problems := reader.Read(inClique)
	n.IMEX = facts
	n.Problems = append(n.Problems, problems...)
}

// imexOf is such as "major 235, 2048 channels, daemon READY, domain UP".
func imexOf(facts *topology.IMEX) string {
	if facts.ChannelMajor == nil {
		return "none: the driver has no IMEX channels"
	}
	parts := []string{fmt.Sprintf("major %d", *facts.ChannelMajor), fmt.Sprintf("%d channels", facts.Channels),
		"daemon " + cmp.Or(facts.DaemonState, "-"), "domain " + cmp.Or(facts.DomainState, "-")}
	if facts.HostService {
		parts = append(parts, "nvidia-imex.service runs")
	}
	return strings.Join(parts, ", ")
}
