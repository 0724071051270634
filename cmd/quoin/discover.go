package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

func newDiscoverCommand() *cobra.Command {
	var s session.Flags
	var node, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "Show this machine: its GPUs, NVLink fabric and place",
		Long: `discover reads the machine once by NVML, and shows what an agent would report.

GRES is the index that Slurm gives a GPU or MIG instance, which scontrol show job -d prints
as IDX. NVML is the driver's index. A dash is a fact that the machine does not have, or
that could not be read; then a line "problem:" says why. Such lines also say what is wrong
with the NVLink fabric.

Adapters for compute are those over which GPUs talk to other machines, as the machine shows;
the line below the table says by what. The key computeAdapters of a publication does not
count here. RATE is that of the active link.

Exit status: 0 also with problems, 2 if nothing could be read.`,
		Args: cobra.NoArgs,
		RunE: s.Run(func(cmd *cobra.Command, conf *config.Config, _ []string) error {
			if timeout <= 0 {
				return fmt.Errorf("--timeout %s: want more than 0", timeout)
			}
			name, err := nodeName(node, &conf.Agent.Machine)
			if err != nil {
				return err
			}
			command, err := probeCommand(conf, name, "--once")
			if err != nil {
				return err
			}
			n, err := probe.Once(cmd.Context(), command, timeout) // a child, because NVML may hang or end it
			if err != nil {
				return err
			}
			readAdapters(cmd.Context(), n, adapterReader(&conf.Agent.Machine), timeout)
			return printNode(cmd.OutOrStdout(), n, publication.AnyFabrics(conf.Clusters()), output)
		}),
	}
	s.Add(cmd)
	machineFlags(cmd, &s, &node)
	libraryFlag(cmd, &s)
	show.AddOutput(cmd, &output, "table", outputJSON, "yaml")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "longest `time` that NVML, and then the network adapters, may take to answer")
	return cmd
}

// readAdapters adds the network adapters of this machine, and what is wrong with them.
func readAdapters(ctx context.Context, n *topology.Node, reader nodeagent.AdapterReader, timeout time.Duration) {
	if reader == nil {
		return
	}
	problem := func(text string) {
		n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonFactUnreadable, Message: text})
	}
	done := make(chan struct{})
	var reading *adapters.Reading
	var err error
	go func() { reading, err = reader.Read(); close(done) }() // a dead adapter may hold it for ever
	select {
	case <-ctx.Done():
		return
	case <-time.After(timeout):
		problem(fmt.Sprintf("network adapters: no answer within %s: one may be dead; see dmesg", timeout))
		return
	case <-done:
	}
	if err != nil {
		problem(err.Error())
		return
	}
	n.Adapters = reading.Adapters
	n.Problems = append(n.Problems, adapters.Problems(n, reading.Unread, reading.More)...)
	if reading.LLDP != nil {
		problem(reading.LLDP.Error())
	}
}

func printNode(w io.Writer, n *topology.Node, fabrics *fabric.Site, output string) error {
	data, err := topology.EncodeReport(n)
	if err != nil {
		return err
	}
	switch output {
	case outputJSON:
		var b bytes.Buffer
		if err := json.Indent(&b, data, "", "  "); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		fmt.Fprintln(w, b.String())
	case "yaml":
		var doc yaml.Node
		if err := yaml.Unmarshal(data, &doc); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		block(&doc)
		enc := yaml.NewEncoder(w)
		enc.SetIndent(2)
		if err := enc.Encode(&doc); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		return enc.Close()
	default:
		show.Node(w, n, gresIndices(n))
		if v := fabrics.Alone(n); v.Remedy != "" {
			show.Print(w, "problem: ", []topology.Finding{*v.Finding})
		}
	}
	return nil
}

// gresIndices are Slurm's GRES indices of the node's GPUs and MIG instances, by UUID. A GPU
// with instances has none of its own. There are none if the device file of a GPU is not
// known, or the place of a GPU that cannot be read.
func gresIndices(n *topology.Node) map[string]string {
	indices := map[string]string{}
	if inv, err := nodeagent.InventoryOf(n); err == nil {
		entries, known := nodeagent.AddUnreadable(inv.Entries, n)
		for _, e := range entries {
			if known {
				indices[e.UUID] = fmt.Sprint(e.GRESIndex)
			}
		}
	}
	return indices
}

// block turns JSON's flow style into YAML's block style.
func block(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	for _, c := range n.Content {
		block(c)
	}
}
