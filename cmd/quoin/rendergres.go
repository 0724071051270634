package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

// addGresFlags adds the flags that say how gres.conf is made.
func addGresFlags(cmd *cobra.Command, g *publisher.Gres) {
	f := cmd.Flags()
	addGresTypeFlags(f, g)
	f.BoolFunc("gres-cores", "write the cores of each GPU's socket; slurm.conf must have the nodes' sockets (default true with --slurm-conf)", func(value string) error {
		cores, err := strconv.ParseBool(value)
		g.Cores = &cores
		return err
	})
	f.StringVar(&g.AutoDetect, "gres-autodetect", "", "off, or how all nodes detect their GPUs: nvidia, nvml, full; default: GPUs are listed, and detected where a node has no report")
}

// addGresTypeFlags adds the flags that say how GPUs are called in gres.conf.
func addGresTypeFlags(f *pflag.FlagSet, g *publisher.Gres) {
	f.StringVar(&g.Naming, "gres-naming", publisher.DefaultPublication().Gres.Naming, "Type of a GPU: model (h100_80gb_hbm3), full (nvidia_h100_80gb_hbm3) or short (h100)")
	types := pflag.NewFlagSet("", pflag.ContinueOnError)
	types.StringToStringVar(&g.Types, "types", nil, "")
	f.Var(plainMap{types.Lookup("types").Value}, "gres-types", "`PRODUCT=TYPE` of products that are to be called otherwise, such as \"NVIDIA GB200=gb\"")
}

// plainMap shows the pairs of a flag as they are given, and none for an empty list.
type plainMap struct{ pflag.Value }

func (m plainMap) String() string {
	if m.Value == nil { // as pflag makes one to learn what is no value
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(m.Value.String(), "["), "]")
}

// Set adds pairs; there may be none.
func (m plainMap) Set(pairs string) error {
	if pairs == "" {
		return nil
	}
	return m.Value.Set(pairs)
}

// Type implements pflag.Value.
func (plainMap) Type() string { return "string" }

// gresDevicesOf returns in which order slurmd has a node's devices, or the flag that
// is wrong.
func gresDevicesOf(g *publisher.Gres) (func(n *topology.Node) []topology.GRESDevice, error) {
	if g.AutoDetect == slurmconf.AutoDetectFull {
		return nil, errors.New(`--gres-autodetect: "full": want what it comes to on this node: nvml where its slurmd has that plugin, else nvidia`)
	}
	if _, err := completeFlags(&publisher.Publication{Gres: *g}); err != nil {
		return nil, err
	}
	o := slurmconf.GresOptions{Naming: slurmconf.GresNaming(g.Naming), Types: g.Types}
	return func(n *topology.Node) []topology.GRESDevice {
		if g.AutoDetect == slurmconf.AutoDetectNvidia || g.AutoDetect == slurmconf.AutoDetectNVML {
			return n.GRESDevicesDetected(g.AutoDetect, o.TypeOf)
		}
		return n.GRESDevicesBy(o.TypeOf)
	}, nil
}
