package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
)

// addGresFlags adds the flags that say how gres.conf is made.
func addGresFlags(cmd *cobra.Command, g *publisher.Gres) {
	d := publisher.DefaultPublication().Gres
	f := cmd.Flags()
	f.StringVar(&g.Naming, "gres-naming", d.Naming, "Type of a GPU: model (h100_80gb_hbm3), full (nvidia_h100_80gb_hbm3) or short (h100)")
	f.StringToStringVar(&g.Types, "gres-types", nil, "`PRODUCT=TYPE` of products that are to be called otherwise, such as \"NVIDIA GB200=gb\"")
	f.Lookup("gres-types").DefValue = "" // pflag would show an empty list
	f.BoolFunc("gres-cores", "write the cores of each GPU's socket; slurm.conf must have the nodes' sockets (default true with --slurm-conf)", func(value string) error {
		cores, err := strconv.ParseBool(value)
		g.Cores = &cores
		return err
	})
	f.StringVar(&g.AutoDetect, "gres-autodetect", "", "off, or how all nodes detect their GPUs: nvidia, nvml, full; default: GPUs are listed, and detected where a node has no report")
}
