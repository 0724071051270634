package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

func newConfigCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration with its defaults filled in, or what is wrong with it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showConfig(cmd.OutOrStdout(), path)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`; default: the defaults alone")
	return cmd
}

func showConfig(w io.Writer, path string) error {
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	var agent agentOptions
	var pub publisherOptions
	agentFlags, pubFlags := agent.command().Flags(), pub.command().Flags()
	if err := errors.Join(setFlags(path, &c.Agent, agentFlags), setFlags(path, &c.Publisher, pubFlags)); err != nil {
		return err
	}
	if err := errors.Join(inFile(path, &c.Agent, agentFlags, agent.check()), inFile(path, &c.Publisher, pubFlags, pub.check())); err != nil {
		return err
	}
	fill(&c.Agent, agentFlags)
	fill(&c.Publisher, pubFlags)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return enc.Close()
}

// check says what the agent would refuse when it starts, by the flag's name.
func (o *agentOptions) check() error {
	if _, err := o.log.logger(io.Discard); err != nil {
		return err
	}
	if _, err := o.dcgm.sources(slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if _, err := o.jobs.hookConfig(); err != nil {
		return err
	}
	_, err := gresDevicesOf(&o.gres)
	return err
}

// check says what the publisher would refuse when it starts, by the flag's name.
func (o *publisherOptions) check() error {
	_, err := o.log.logger(io.Discard)
	return err
}

// inFile names the line and the key of the section for an error that begins with a
// flag's name.
func inFile(path string, section *yaml.Node, flags *pflag.FlagSet, err error) error {
	if err == nil {
		return nil
	}
	flag, ok := strings.CutPrefix(err.Error(), "--")
	end := strings.IndexAny(flag, ": ")
	if !ok || end < 0 || flags.Lookup(flag[:end]) == nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	key := keyOf(flags.Lookup(flag[:end]))
	return fmt.Errorf("%s:%d: %s%s", path, lineOf(section, []string{key}), key, flag[end:])
}
