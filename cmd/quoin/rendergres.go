package main

import (
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/topology"
)

// addGresFlags adds the flags that say how gres.conf is made.
func addGresFlags(cmd *cobra.Command, g *publisher.Gres) {
	d := publisher.DefaultPublication().Gres
	f := cmd.Flags()
	f.StringVar(&g.Naming, "gres-naming", d.Naming, "Type of a GPU: model (h100_80gb_hbm3), full (nvidia_h100_80gb_hbm3) or short (h100)")
	f.StringToStringVar(&g.Types, "gres-types", nil, "`PRODUCT=TYPE` of products that are to be called otherwise, such as \"NVIDIA GB200=gb\"")
	f.BoolVar(&g.Cores, "gres-cores", false, "write the cores of each GPU's socket; slurm.conf must have the nodes' sockets (default true with --slurm-conf)")
	f.StringVar(&g.AutoDetect, "gres-autodetect", "", "off, or how all nodes detect their GPUs: nvidia, nvml, full; default: GPUs are listed, and detected where a node has no report")
}

// addFragment adds a fragment of slurm.conf that goes with the files.
func addFragment(made *publisher.Made, facts []topology.Facts) error {
	lines, err := slurmconf.ParseGres("gres.conf", []byte(made.Files["gres.conf"]))
	if err != nil {
		return err
	}
	f := slurmconf.Fragment{Facts: facts, Gres: lines, MultiNodeNVLink: len(made.Plan.Blocks) > 0}
	if text, ok := made.Files["topology.conf"]; ok {
		f.Plugin = slurmconf.PluginBlock
		if t, err := slurmconf.ParseConf("topology.conf", []byte(text)); err == nil && t.Tree != nil {
			f.Plugin = slurmconf.PluginTree
		}
	}
	text, err := f.Render("Written by quoin from the reports of the nodes.")
	if err == nil {
		made.Files[slurmconf.SlurmNodesFile] = string(text)
	}
	return err
}
