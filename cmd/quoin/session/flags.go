package session

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
)

// Flags are the flags by which a command gets its configuration: the file, any key by --set, and
// the keys that are typed daily by a flag of their own. AddSources adds the flags that say which
// cluster or directory the command works on.
type Flags struct {
	path  string
	given []config.Setting
	times []string

	publication, kubeconfig, context string

	// machineFile is MachineFile. Tests have another.
	machineFile string
}

// Add adds --config and --set.
func (f *Flags) Add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.path, "config", "", "configuration `file`; quoin config shows all keys")
	set.Func("set", "set any `key=value` of the configuration, such as --set agent.runDir=/run/quoin; repeatable", func(text string) error {
		given, err := config.ParseSetting(text)
		f.given = append(f.given, given)
		return err
	})
	show.Global(cmd, "config", "set")
	show.CompleteBy(cmd, "set", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var keys []cobra.Completion
		for _, key := range config.Keys() {
			keys = append(keys, key+"=")
		}
		return keys, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
}

// AddTimes adds the flag by which tests of whole programs shorten waits.
func (f *Flags) AddTimes(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.times, "times", nil, "waits that tests shorten, such as 'read: 20ms'")
	_ = cmd.Flags().MarkHidden("times") // fails only without the flag
}

// AddSources adds the flags that say what Open opens.
func (f *Flags) AddSources(cmd *cobra.Command) {
	f.AddPublication(cmd)
	f.AddKey(cmd, "store", "publisher.store", "the publisher works in this `directory` instead of Kubernetes")
	f.AddKey(cmd, "namespace", "publisher.namespace", "`namespace` of Quoin's configuration and stored plans")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; default: as kubectl does, or as a Pod")
	cmd.Flags().StringVar(&f.context, "context", "", "`name` of the kubeconfig's context; default: its current one")
	show.Global(cmd, "publication", "store", "namespace", "kubeconfig", "context")
	for _, cluster := range []string{"kubeconfig", "context"} {
		cmd.MarkFlagsMutuallyExclusive("store", cluster)
	}
}

// AddPublication adds --publication.
func (f *Flags) AddPublication(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.publication, "publication", "", "`name` of the publication; needed if the configuration has several")
}

// AddKey adds a flag of one key. The usage names the value in back quotes.
func (f *Flags) AddKey(cmd *cobra.Command, name, key, usage string, values ...string) {
	cmd.Flags().Func(name, usage, func(text string) error {
		f.given = append(f.given, config.Setting{Key: key, Value: text, Flag: "--" + name})
		return nil
	})
	cmd.Flags().Lookup(name).DefValue = config.Value(key)
	if len(values) > 0 {
		show.Complete(cmd, name, cobra.ShellCompDirectiveNoFileComp, values...)
	}
}

// AddService adds the flags of a command that runs on; section is agent or publisher.
func (f *Flags) AddService(cmd *cobra.Command, section string) {
	f.AddKey(cmd, "kubeconfig", section+".kubeconfig", "`file` that says how to reach the API server; default: as a Pod")
	f.AddKey(cmd, "listen", section+".listen", "`address` of /metrics; empty for none")
	f.AddKey(cmd, "log-level", section+".logLevel", "log from this `level` on: debug, info, warn or error", "debug", "info", "warn", "error")
	f.AddKey(cmd, "log-format", section+".logFormat", "`form` of the log: text or json", "text", "json")
	f.AddTimes(cmd)
}

// AddFiles adds the flags that say what files are made.
func (f *Flags) AddFiles(cmd *cobra.Command) {
	f.AddKey(cmd, "format", "publications.*.format", "`form` of the topology file: conf (topology.conf) or yaml (topology.yaml, Slurm 25.05 and newer); default: yaml if the release takes it", "conf", "yaml")
	f.AddRelease(cmd)
}

// AddRelease adds the flag of the Slurm release.
func (f *Flags) AddRelease(cmd *cobra.Command) {
	var releases []string
	for _, r := range slurmconf.Releases() {
		releases = append(releases, r.String())
	}
	f.AddKey(cmd, "slurm-version", "publications.*.slurmVersion", "Slurm `release` that loads the files: "+slurmconf.KnownReleases()+"; default: the one that is seen, else "+slurmconf.Unseen.String(), releases...)
}

// Load reads the configuration that --config names, without a look at any cluster: for commands
// that run on, or read this machine.
func (f *Flags) Load() (*config.Config, error) { return f.load(f.path) }

func (f *Flags) load(path string) (*config.Config, error) {
	d := defaults()
	if err := d.Times.Set(strings.Join(f.times, ", ")); err != nil {
		return nil, err
	}
	return config.Load(d, path, f.given)
}

// defaults are the values of keys that are given nowhere.
func defaults() *config.Config {
	d := config.Default()
	if ns := os.Getenv("NAMESPACE"); ns != "" {
		d.Publisher.Namespace = ns
	}
	return d
}

// Run returns a command's function that gets the configuration of Load.
func (f *Flags) Run(do func(cmd *cobra.Command, c *config.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.Load()
		if err != nil {
			return err
		}
		return do(cmd, c, args)
	}
}
