package main

import (
	"errors"
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
	f.Func("set", "set any `key=value` of the configuration, such as --set agent.runDir=/run/quoin; repeatable", func(text string) error {
		given, err := config.ParseSetting(text)
		s.given = append(s.given, given)
		return err
	})
	completeBy(cmd, "set", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var keys []cobra.Completion
		for _, key := range config.Keys() {
			keys = append(keys, key+"=")
		}
		return keys, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
}

// keyFlag adds a flag of one key. The usage names the value in back quotes.
func (s *settings) keyFlag(cmd *cobra.Command, name, key, usage string, values ...string) {
	cmd.Flags().Func(name, usage, func(text string) error {
		s.given = append(s.given, config.Setting{Key: key, Value: text, Flag: "--" + name})
		return nil
	})
	cmd.Flags().Lookup(name).DefValue = config.Value(key)
	if len(values) > 0 {
		complete(cmd, name, cobra.ShellCompDirectiveNoFileComp, values...)
	}
}

// serviceFlags adds the flags of a command that runs on; section is agent or publisher.
func (s *settings) serviceFlags(cmd *cobra.Command, section string) {
	s.keyFlag(cmd, "kubeconfig", section+".kubeconfig", "`file` that says how to reach the API server; default: as a Pod")
	s.keyFlag(cmd, "listen", section+".listen", "`address` of /metrics; empty for none")
	s.keyFlag(cmd, "log-level", section+".logLevel", "log from this `level` on: debug, info, warn or error", "debug", "info", "warn", "error")
	s.keyFlag(cmd, "log-format", section+".logFormat", "`form` of the log: text or json", "text", "json")
}

// fileFlags adds the flags that say what files are made.
func (s *settings) fileFlags(cmd *cobra.Command) {
	var releases []string
	for _, r := range slurmconf.Releases() {
		releases = append(releases, r.String())
	}
	s.keyFlag(cmd, "format", "publications.*.format", "`form` of the topology file: conf (topology.conf) or yaml (topology.yaml, Slurm 25.05 and newer); default: yaml if the release takes it", "conf", "yaml")
	s.keyFlag(cmd, "slurm-version", "publications.*.slurmVersion", "Slurm `release` that loads the files: "+strings.Join(releases, ", ")+"; default "+releases[len(releases)-1], releases...)
}

// outputFlag adds the flag --output of the words that it takes. The first one is the default.
func outputFlag(cmd *cobra.Command, output *string, words ...string) {
	last := len(words) - 1
	list := strings.Join(words[:last], ", ") + " or " + words[last]
	*output = words[0]
	cmd.Flags().FuncP("output", "o", "`form` of the output: "+list, func(text string) error {
		if !slices.Contains(words, text) {
			return errors.New("want " + list)
		}
		*output = text
		return nil
	})
	cmd.Flags().Lookup("output").DefValue = words[0]
	complete(cmd, "output", cobra.ShellCompDirectiveNoFileComp, words...)
}

func complete(cmd *cobra.Command, flag string, directive cobra.ShellCompDirective, values ...string) {
	completeBy(cmd, flag, cobra.FixedCompletions(values, directive))
}

func completeBy(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the command has no such flag
	}
}

// load reads the configuration.
func (s *settings) load() (*config.Config, error) {
	d := config.Default()
	if ns := os.Getenv("NAMESPACE"); ns != "" {
		d.Publisher.Namespace = ns
	}
	return config.Load(d, s.path, s.given)
}

// run returns a command's function that gets the configuration that the flags give.
func (s *settings) run(f func(cmd *cobra.Command, c *config.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := s.load()
		if err != nil {
			return err
		}
		return f(cmd, c, args)
	}
}
