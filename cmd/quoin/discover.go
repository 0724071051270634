package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
)

func newDiscoverCommand() *cobra.Command {
	var s settings
	var node, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "Show this machine: its GPUs, NVLink fabric and place",
		Long: `discover reads the machine once by NVML, and shows what an agent would report.

GRES is the index that Slurm gives a GPU or MIG instance: "scontrol show job -d"
prints it as IDX. NVML is the driver's index. A dash is a fact that the machine does
not have, or that could not be read. A line "problem:" then says why.

Exit status: 0, also with problems; 2 if nothing could be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" && output != "yaml" {
				return fmt.Errorf("--output %q: want table, json or yaml", output)
			}
			if timeout <= 0 {
				return fmt.Errorf("--timeout %s: want more than 0", timeout)
			}
			conf, err := s.load()
			if err != nil {
				return err
			}
			name, err := nodeName(node, &conf.Agent.Machine)
			if err != nil {
				return err
			}
			command, err := probeCommand(&conf.Agent.Machine, name, "--once")
			if err != nil {
				return err
			}
			n, err := probe.Once(cmd.Context(), command, timeout) // a child, because NVML may hang or end it
			if err != nil {
				return err
			}
			return printNode(cmd.OutOrStdout(), n, output)
		},
	}
	s.addFlags(cmd)
	s.machineFlags(cmd, &node)
	s.libraryFlag(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "longest `time` that NVML may take to answer")
	return cmd
}

func printNode(w io.Writer, n *topology.Node, output string) error {
	data, err := topology.EncodeReport(n)
	if err != nil {
		return err
	}
	switch output {
	case "json":
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
		printTable(w, n)
	}
	return nil
}

// block turns JSON's flow style into YAML's block style.
func block(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	for _, c := range n.Content {
		block(c)
	}
}

func printTable(w io.Writer, n *topology.Node) {
	fmt.Fprintf(w, "Node      %s\n", n.Name)
	if n.DriverVersion+n.NVMLVersion+n.CUDAVersion != "" {
		fmt.Fprintf(w, "Driver    %s, NVML %s, CUDA %s\n", cmp.Or(n.DriverVersion, "-"), cmp.Or(n.NVMLVersion, "-"), cmp.Or(n.CUDAVersion, "-"))
	}
	if p := n.Platform; p != nil {
		chassis := "chassis " + p.ChassisSerial
		if p.RackGUID != "" {
			chassis = "rack GUID " + p.RackGUID
		}
		fmt.Fprintf(w, "Platform  %s, slot %d, tray %d, host %d\n", chassis, p.Slot, p.Tray, p.HostID)
	}
	if n.IMEX != nil {
		fmt.Fprintf(w, "IMEX      %s\n", imexOf(n.IMEX))
	}
	for i, s := range n.Sockets {
		fmt.Fprintf(w, "Socket %-2d %d cores, CPUs %s\n", i, s.Cores, s.CPUs)
	}
	if len(n.Tiers) > 0 {
		fmt.Fprintf(w, "Switches  %s\n", strings.Join(n.Tiers, " < "))
	}
	if len(n.GPUs) == 0 {
		fmt.Fprintln(w, "GPUs      none")
	} else {
		fmt.Fprintln(w)
		printGPUs(w, n)
		printMIG(w, n)
		printLinks(w, n)
		printHealth(w, n)
	}
	for _, p := range n.Problems {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
}

// gresIndices are Slurm's GRES indices of the node's GPUs and MIG instances, by
// UUID. A GPU with instances has none of its own.
func gresIndices(n *topology.Node) map[string]string {
	indices := map[string]string{}
	for i, d := range n.GRESDevices() {
		uuid := d.GPU.UUID
		if d.MIG != nil {
			uuid = d.MIG.UUID
		}
		indices[uuid] = fmt.Sprint(i)
	}
	return indices
}

// printGPUs prints the GPUs in the order of their device files.
func printGPUs(w io.Writer, n *topology.Node) {
	indices := gresIndices(n)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GRES\tNVML\tDEVICE\tPRODUCT\tMEMORY\tPCI\tNUMA\tCPUS\tFABRIC\tHEALTH\tCLIQUE\tUUID")
	for _, g := range n.GRESOrder() {
		numa, cpus := "-", cmp.Or(g.CPUAffinity, "-")
		if g.NUMANode != nil {
			numa = fmt.Sprint(*g.NUMANode)
		}
		state, health, clique := "-", "-", "-"
		if f := g.Fabric; !f.IsZero() {
			state = string(f.State)
			if f.Status != "" {
				state += " (" + f.Status + ")"
			}
			if f.Health != "" {
				health = string(f.Health)
			}
			if c, ok := f.Clique(); ok {
				clique = c.String()
			}
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(indices[g.UUID], "-"), g.Index, deviceOf(&g), cmp.Or(g.Product, "-"), memoryOf(&g), cmp.Or(g.PCIBusID, "-"), numa, cpus, state, health, clique, g.UUID)
	}
	_ = t.Flush() // into memory or a terminal
}

// memoryOf returns a text such as "80 GiB".
func memoryOf(g *topology.GPU) string {
	if g.MemoryMiB == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f GiB", float64(g.MemoryMiB)/1024)
}

// deviceOf returns the GPU's device file. The lists name the GPU by it.
func deviceOf(g *topology.GPU) string {
	if g.Minor == nil {
		return "-"
	}
	return fmt.Sprintf("/dev/nvidia%d", *g.Minor)
}

// imexOf returns a text such as "major 235, 2048 channels, daemon READY, domain UP".
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
