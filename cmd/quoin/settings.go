package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf"
)

// settings are the flags by which a command gets its configuration: the file, any
// key by --set, and the keys that are typed daily by a flag of their own.
type settings struct {
	path  string
	given []config.Setting
}

// addFlags adds --config and --set.
func (s *settings) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.path, "config", "", "configuration `file`; quoin config shows all keys")
	f.Var(&setFlag{s}, strings.TrimPrefix(config.SetFlag, "--"), "set any `key=value` of the configuration, such as "+config.SetFlag+" agent.runDir=/run/quoin; repeatable")
	complete(cmd, "set", cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp, settable()...)
}

// settable lists the keys as a shell completes them.
func settable() []string {
	var out []string
	for _, key := range config.Keys() {
		out = append(out, key+"=")
	}
	return out
}

// keyFlag adds a flag of one key.
func (s *settings) keyFlag(cmd *cobra.Command, name, key, usage string, values ...string) {
	cmd.Flags().Var(&keyFlag{s, key, "--" + name, config.Default().Value(key)}, name, usage)
	if len(values) > 0 {
		complete(cmd, name, cobra.ShellCompDirectiveNoFileComp, values...)
	}
}

// logFlags adds the flags of a command that runs on; section is agent or publisher.
func (s *settings) logFlags(cmd *cobra.Command, section string) {
	s.keyFlag(cmd, "log-level", section+".logLevel", "debug, info, warn or error", "debug", "info", "warn", "error")
	s.keyFlag(cmd, "log-format", section+".logFormat", "text or json", "text", "json")
}

// fileFlags adds the flags that say what files are made.
func (s *settings) fileFlags(cmd *cobra.Command) {
	releases := releaseNames()
	s.keyFlag(cmd, "format", "publications.format", "conf (topology.conf) or yaml (topology.yaml, Slurm 25.05 and newer); default: yaml if the release takes it", "conf", "yaml")
	s.keyFlag(cmd, "slurm-version", "publications.slurmVersion", "Slurm `release` that loads the files: "+strings.Join(releases, ", ")+"; default "+releases[len(releases)-1], releases...)
}

func releaseNames() []string {
	var names []string
	for _, r := range slurmconf.Releases() {
		names = append(names, r.String())
	}
	slices.Sort(names)
	return names
}

func complete(cmd *cobra.Command, flag string, directive cobra.ShellCompDirective, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, directive)); err != nil {
		panic(err) // the command has no such flag
	}
}

// load reads the configuration.
func (s *settings) load() (*config.Config, error) {
	d := config.Default()
	if ns := os.Getenv("NAMESPACE"); ns != "" {
		d.Agent.Namespace, d.Publisher.Namespace = ns, ns
	}
	return config.Load(d, s.path, s.given)
}

// setFlag is the flag --set.
type setFlag struct{ s *settings }

// String implements pflag.Value.
func (*setFlag) String() string { return "" }

// Type implements pflag.Value.
func (*setFlag) Type() string { return "key=value" }

// Set implements pflag.Value.
func (f *setFlag) Set(text string) error {
	given, err := config.ParseSetting(text)
	if err == nil {
		f.s.given = append(f.s.given, given)
	}
	return err
}

// keyFlag is the flag of one key.
type keyFlag struct {
	s         *settings
	key, flag string
	value     string
}

// String implements pflag.Value.
func (f *keyFlag) String() string { return f.value }

// Type implements pflag.Value.
func (*keyFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *keyFlag) Set(text string) error {
	f.value = text
	f.s.given = append(f.s.given, config.Setting{Key: f.key, Value: text, Flag: f.flag})
	return nil
}
