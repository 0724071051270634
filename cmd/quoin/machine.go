package main

import (
	"context"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex/local"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nvml"
)

// openMachine opens the machine that a probe reads: this one by NVML, or a simulated one of a site's
// file. With watch, as an agent's child, Xid events are reported until ctx ends.
// The caller calls done at the end.
func openMachine(ctx context.Context, c *config.Machine, node string, watch bool) (m probe.Machine, done func(), err error) {
	if c.Simulate != "" {
		return &simulation{site: c.Simulate, node: node, energy: map[string]float64{}}, func() {}, nil
	}
	lib, err := nvml.Open(nvml.Options{Path: c.NVMLLibrary, Root: c.HostRoot, Sys: c.Sys(), Whole: watch})
	if err != nil {
		return nil, nil, err
	}
	imex := local.Options{Root: c.HostRoot, Cgroups: c.ControlGroups()}
	if watch {
		imex.Patience = imexPatience
		go lib.WatchXids(ctx) // ends with the process
	}
	return &nvmlMachine{lib, c.HostRoot, local.New(imex)}, func() { _ = lib.Close() }, nil // the process ends
}

// nvmlMachine is this machine.
type nvmlMachine struct {
	lib  *nvml.Library
	root string
	imex *local.Reader
}

func (m *nvmlMachine) Read() (*topology.Node, error) {
	n, err := m.lib.Read()
	if err != nil {
		return nil, err
	}
	if n.BootID, err = rundir.BootID(m.root); err != nil {
		n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonFactUnreadable, Message: err.Error()})
	}
	n.FabricMode, n.IMEXNodes = local.FabricMode(m.root), local.CountNodes(m.root)
	v := new(fabric.Site).Alone(n)                                                        // a probe does not know the keys of the site
	facts, problems := m.imex.Read(!v.Clique.IsZero() || v.IMEX == topology.IMEXNotReady) // the site may know better than the product
	n.IMEX, n.Problems = facts, append(n.Problems, problems...)
	return n, nil
}

func (m *nvmlMachine) Want(uuids []string)     { m.lib.SampleDevices(uuids) }
func (m *nvmlMachine) Sample() topology.Sample { return m.lib.Sample() }
func (m *nvmlMachine) Look() topology.Sample   { return m.lib.Look() }

// imexPatience is the longest that a reading of a running probe waits for
// nvidia-imex-ctl, because NVML's facts and samples wait with it.
const imexPatience = 500 * time.Millisecond
