package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/hostengine"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// machineFlags adds the flags that say which machine is read.
func machineFlags(cmd *cobra.Command, s *session.Flags, node *string) {
	s.AddKey(cmd, "simulate", "agent.simulate", "read a simulated machine of this `site` (a file, or a site of quoin demo --list) instead of NVML")
	show.Complete(cmd, "simulate", cobra.ShellCompDirectiveDefault, simulated.Shipped()...)
	cmd.Flags().StringVar(node, "node", os.Getenv("NODE_NAME"), "`name` of this node; default: $NODE_NAME, else the host's name")
}

// libraryFlag adds the flag that says which NVML is loaded.
func libraryFlag(cmd *cobra.Command, s *session.Flags) {
	s.AddKey(cmd, "nvml-library", "agent.nvmlLibrary", "`path` of libnvidia-ml; default: the loader finds it")
}

// probeArgs are the flags that hand the configuration to a child.
func probeArgs(conf *config.Config, node string) []string {
	m, args := &conf.Agent.Machine, []string{"--node", node, "--times", "read: " + conf.Times.Read.String()}
	for _, kv := range [][2]string{{"simulate", m.Simulate}, {"nvmlLibrary", m.NVMLLibrary}, {"hostRoot", m.HostRoot}, {"sysRoot", m.SysRoot}} {
		if kv[1] != "" {
			args = append(args, config.SetFlag, "agent."+kv[0]+"="+kv[1])
		}
	}
	return args
}

// probeCommand is this program's own probe command for the machine.
func probeCommand(conf *config.Config, node string, args ...string) ([]string, error) {
	return ownCommand(slices.Concat([]string{"probe"}, args, probeArgs(conf, node))...)
}

// ownCommand is the command that runs this program with other arguments.
func ownCommand(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	return append([]string{self}, args...), nil
}

// nodeName returns the name of this node: the given one, else the name of the host.
func nodeName(given string, m *config.Machine) (string, error) {
	if given != "" {
		return given, checkNodeName(given)
	}
	if m.Simulate != "" {
		return "", errors.New("--simulate without --node: want the name of one of its machines")
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find this node's name: %w; give --node", err)
	}
	return host, checkNodeName(host)
}

// partOfFileName is what may be part of the name of a file and of an object. The length
// is checked apart, because a regular expression that counts to it takes long to compile.
var partOfFileName = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]*$`)

func checkNodeName(name string) error {
	if len(name) > 253 || !partOfFileName.MatchString(name) {
		return fmt.Errorf("--node %q: want at most 253 letters, digits, '-', '_' and '.', the first no '.'", name)
	}
	return nil
}

func newProbeCommand() *cobra.Command {
	var s session.Flags
	var node string
	var once bool
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Stream reports of this machine as JSON lines; quoin agent runs it as its child",
		Long: `probe reads the machine by NVML and prints one report a line: one at the start, and
one when a fact has changed. An empty line says that nothing has changed. probe ends
when its standard input is closed.

A line "sample 10s UUID,UUID,..." on standard input makes probe print samples of these
devices, too. It replaces an earlier such line. "sample off" ends the samples. A sample
is a line of its own.`,
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: s.Run(func(cmd *cobra.Command, conf *config.Config, _ []string) error {
			c := &conf.Agent.Machine
			name, err := nodeName(node, c)
			if err != nil {
				return err
			}
			m, closeMachine, err := openMachine(cmd.Context(), c, name, !once)
			if err != nil {
				return err
			}
			defer closeMachine()
			serve := probe.Options{Node: name, Interval: conf.Times.Read, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Errors: cmd.ErrOrStderr()}
			if once {
				serve.Interval = 0
			}
			return probe.Serve(cmd.Context(), m, serve)
		}),
	}
	s.Add(cmd)
	s.AddTimes(cmd)
	machineFlags(cmd, &s, &node)
	libraryFlag(cmd, &s)
	cmd.Flags().BoolVar(&once, "once", false, "print one report and end")
	return cmd
}

// newProbeDCGMCommand returns the agent's other child.
func newProbeDCGMCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:    "probe-dcgm",
		Short:  "Print DCGM's ids of the GPUs as one line of JSON; quoin agent runs it as its child",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gpus, err := hostengine.Read(address)
			if err != nil {
				return err
			}
			line, err := dcgm.EncodeIdentities(gpus)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line)
			return err
		},
	}
	cmd.Flags().StringVar(&address, "host-engine", "localhost:5555", "`address` of DCGM's host engine: host, host:port, or the path of its socket")
	return cmd
}
