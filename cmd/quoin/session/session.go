// Package session opens what a command works on, once and in one way for all commands: the
// configuration, the publication, and the store of plans and reports, which is a cluster or a
// directory. The first of these says where they are:
//
//  1. --config and --store
//  2. --kubeconfig, --context, and the environment's KUBECONFIG
//  3. MachineFile, if it is there
//  4. ~/.kube/config
//  5. the cluster in which the command runs as a Pod
//
// On a cluster the configuration is the cluster's own, in a ConfigMap, unless a file is given. A
// ConfigMap that cannot be read is an error: defaults never take its place. A command that is
// given nodes, reports or files asks no cluster.
//
// The package also reads what a command is given in place of a store: kubectl's output and reports.
// It writes nothing but one line, which names what was opened.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

// MachineFile is the configuration of a machine.
const MachineFile = "/etc/quoin/quoin.yaml"

// ConfigName is the ConfigMap with the configuration in Quoin's namespace, and ConfigKey its key.
const (
	ConfigName = "quoin-config"
	ConfigKey  = "quoin.yaml"
)

// Store has reports, plans and what is published. It takes what people ask for, and knows the
// addresses of nodes.
type Store interface {
	Snapshot(ctx context.Context) (*inputs.Snapshot, error)
	// LoadPlan returns the stored plan, or nil if there is none.
	LoadPlan(ctx context.Context, publication string) (*plandoc.Document, error)
	// Load returns what is published, or nil if nothing is.
	Load(ctx context.Context, place plandoc.Location) (*plandoc.Published, error)
	// Ask adds annotations to the publication.
	Ask(ctx context.Context, place plandoc.Location, annotations map[string]string) error
	Addresses(ctx context.Context, nodes []string) (map[string]netip.Addr, error)
}

// Session is what a command works on.
type Session struct {
	Config *config.Config
	// Configured says that the configuration was read, and is not the defaults alone.
	Configured bool
	// Store is nil if the session is local.
	Store Store
	// Cluster says how to reach the API server. It is nil without a cluster.
	Cluster *rest.Config

	flags *Flags
	// place is where the store is, and from where the configuration is.
	place, from string
}

// ErrNoCluster is the error of Open if nothing says where the cluster is.
var ErrNoCluster = errors.New("nothing says which cluster: there is no KUBECONFIG and no ~/.kube/config, and this is no Pod; give --kubeconfig FILE, or --store DIR to work without Kubernetes")

// ConfigError says why the cluster's configuration is not known.
type ConfigError struct {
	// Refused says that the configuration was read, and that it has values which cannot be. Its
	// publisher does not start.
	Refused bool
	place   string
	err     error
}

// Error returns the text.
func (e *ConfigError) Error() string {
	if e.Refused {
		return e.err.Error()
	}
	text := "read configuration: ConfigMap " + e.place + ": " + e.err.Error()
	if apierrors.IsForbidden(e.err) {
		text += "; give its text as a file by --config FILE"
	}
	return text
}

// Unwrap returns what the API server said.
func (e *ConfigError) Unwrap() error { return e.err }

// Open opens configuration and store, and says on w what it opened. If the error is ErrNoCluster
// or a ConfigError, the session has the configuration that flags and files give, and in the
// second case Cluster.
func (f *Flags) Open(ctx context.Context, w io.Writer) (*Session, error) {
	s, err := f.read(true)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, w)
}

// OpenNamed is Open if a flag or the configuration names a cluster or a directory, and OpenLocal
// otherwise. It is for quoin job, which reads this machine first: the environment or the home
// directory of somebody who asks about a job must not make the command depend on an API server.
func (f *Flags) OpenNamed(ctx context.Context, w io.Writer) (*Session, error) {
	s, err := f.read(f.kubeconfig+f.context != "")
	if err != nil {
		return nil, err
	}
	if c := &s.Config.Publisher; f.kubeconfig+f.context+c.Store+c.Kubeconfig != "" {
		return s.open(ctx, w)
	}
	s.say(w, "")
	return s, nil
}

func (s *Session) open(ctx context.Context, w io.Writer) (*Session, error) {
	f, c := s.flags, &s.Config.Publisher
	if c.Store != "" {
		if f.kubeconfig+f.context != "" {
			return nil, fmt.Errorf("--kubeconfig or --context beside publisher.store of %s: want one of them", s.from)
		}
		if err := reportdir.Exists(c.Store); err != nil {
			return nil, err
		}
		s.Store, s.place = dir.New(c.Store, publication.FabricFiles(s.Config.Clusters())...), "directory "+c.Store
		s.say(w, s.place)
		return s, nil
	}
	rc, cluster, err := reach(cmp.Or(f.kubeconfig, c.Kubeconfig), f.context)
	if err != nil {
		return s, err
	}
	client, err := clientOf(rc, "quoin", 50)
	if err != nil {
		return nil, err
	}
	s.Cluster = rc
	if !s.Configured {
		if err := s.readConfigMap(ctx, client); err != nil {
			return s, err
		}
	}
	s.Store, s.place = &objects{kube.Plans{Client: client, Namespace: s.Config.Publisher.Namespace}, s}, "namespace "+s.Config.Publisher.Namespace
	s.say(w, cluster)
	return s, nil
}

// OpenLocal opens the configuration for a command that is given its nodes, reports or files. It asks
// no cluster.
func (f *Flags) OpenLocal(w io.Writer) (*Session, error) {
	s, err := f.read(false)
	if err == nil {
		s.say(w, "")
	}
	return s, err
}

// read reads the configuration that a file and flags give.
func (f *Flags) read(store bool) (*Session, error) {
	s := &Session{flags: f, from: f.path, Configured: f.path != ""}
	var err error
	if s.Config, err = f.load(f.path); err != nil || s.Configured {
		return s, err
	}
	s.from = "defaults"
	c, file := &s.Config.Publisher, cmp.Or(f.machineFile, MachineFile)
	if store && c.Store == "" && f.kubeconfig+f.context+c.Kubeconfig+os.Getenv("KUBECONFIG") != "" {
		return s, nil
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	s.from, s.Configured = file, true
	s.Config, err = f.load(file)
	return s, err
}

// readConfigMap reads the cluster's own configuration. If there is none, the defaults hold.
func (s *Session) readConfigMap(ctx context.Context, client kubernetes.Interface) error {
	namespace := s.Config.Publisher.Namespace
	place := namespace + "/" + ConfigName
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, ConfigName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.from = "defaults, because there is no ConfigMap " + place
		return nil
	} else if err != nil {
		return &ConfigError{place: place, err: err}
	}
	text, ok := cm.Data[ConfigKey]
	if !ok {
		return &ConfigError{place: place, err: errors.New("it has no key " + ConfigKey + ": write the configuration there, or give it as a file by --config FILE")}
	}
	s.from, s.Configured = "ConfigMap "+place, true
	d := defaults()
	d.Publisher.Namespace = namespace
	conf, err := config.Parse(d, s.from, []byte(text), s.flags.given)
	if err != nil {
		return &ConfigError{Refused: true, place: place, err: err}
	}
	conf.Publisher.Kubeconfig = s.Config.Publisher.Kubeconfig // theirs is a file of their Pod
	s.Config = conf
	return nil
}

// say names what was opened, if anything was.
func (s *Session) say(w io.Writer, store string) {
	switch {
	case store != "":
		fmt.Fprintf(w, "quoin: opened %s; configuration: %s\n", store, s.from)
	case s.Configured:
		fmt.Fprintf(w, "quoin: configuration: %s\n", s.from)
	}
}

// Publications are the publications that are worked on: the one that --publication names, or all.
func (s *Session) Publications() ([]*publication.Cluster, error) {
	all := s.Config.Clusters()
	if s.flags.publication == "" {
		return all, nil
	}
	pub, err := s.flags.choose(all)
	return []*publication.Cluster{pub}, err
}

// Publication is the one that --publication names, or the only one. Its rules take objects from
// lists.
func (s *Session) Publication() (*publication.Cluster, error) {
	pub, err := s.flags.choose(s.Config.Clusters())
	if err == nil {
		pub.Rules.FromLists()
	}
	return pub, err
}

// LoadPublication reads the configuration as Load does, and returns the publication that
// --publication names, or the only one.
func (f *Flags) LoadPublication() (*publication.Cluster, error) {
	conf, err := f.Load()
	if err != nil {
		return nil, err
	}
	return f.choose(conf.Clusters())
}

func (f *Flags) choose(all []*publication.Cluster) (*publication.Cluster, error) {
	var names []string
	for _, p := range all {
		if p.Name == f.publication || f.publication == "" && len(all) == 1 {
			return p, nil
		}
		names = append(names, p.Name)
	}
	if f.publication == "" {
		return nil, fmt.Errorf("the configuration has %d publications: choose one by --publication: %s", len(names), strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("--publication %q: want one of %s", f.publication, strings.Join(names, ", "))
}

// Plan returns the stored plan of a publication. A missing plan is an error, which names the place.
func (s *Session) Plan(ctx context.Context, publication string) (*plandoc.Document, error) {
	d, err := s.Store.LoadPlan(ctx, publication)
	if err == nil && d == nil {
		err = fmt.Errorf("publication %q has no stored plan in %s: start quoin publisher there, wait for its first publication (its log says for what it waits), or say where it runs by --store DIR or --namespace NAME", publication, s.place)
	}
	return d, err
}

// Commands are what commands that are advised begin and end with, so that all work on the same cluster.
type Commands struct {
	Kubectl, Helm string
	// Again are the flags of quoin, as a shell reads them, with a blank before each.
	Again string
}

// Commands returns the commands that work on the same cluster as the session.
func (s *Session) Commands() Commands {
	file := cmp.Or(s.flags.kubeconfig, s.Config.Publisher.Kubeconfig)
	return Commands{Kubectl: "kubectl" + s.flags.ofCluster(file, "--context"), Helm: "helm" + s.flags.ofCluster(file, "--kube-context"), Again: s.again()}
}

// ofCluster returns the flags that name a kubeconfig and its context, with a blank before each.
func (f *Flags) ofCluster(file, contextFlag string) (text string) {
	if file != "" {
		text = config.Flag("--kubeconfig", file)
	}
	if f.context != "" {
		text += config.Flag(contextFlag, f.context)
	}
	return text
}

// Again is Again of Commands for one publication.
func (s *Session) Again(publication string) string {
	return config.Flag("--publication", publication) + s.again()
}

func (s *Session) again() string {
	return config.Given(s.flags.path, s.flags.given) + s.flags.ofCluster(s.flags.kubeconfig, "--context")
}
