// Package config reads the one YAML file that configures quoin, fills in the
// defaults and checks every value. A key can also be set from the command line.
// Each error names the place: a line of the file, or the flag.
//
// It refuses unknown keys, a key that is given twice, and a second document. It
// acts on nothing: it opens no file but the configuration.
package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// Config is the configuration of all commands.
type Config struct {
	// Agent configures quoin agent, and commands that read a machine.
	Agent Agent `yaml:"agent"`
	// Publisher configures quoin publisher.
	Publisher Publisher `yaml:"publisher"`
	// IMEX says how nodes join one IMEX domain.
	IMEX imex.Config `yaml:"imex"`
	// PublicationDefaults are the keys that all publications share. A key of a publication
	// overrides them: a list or pairs replace the whole value, and an empty value counts.
	PublicationDefaults publication.Publication `yaml:"publicationDefaults,omitempty"`
	// Publications are the Slurm clusters that get files, by name, each with keys of
	// publicationDefaults. If there is none, there is one publication, `default`.
	Publications map[string]publication.Publication `yaml:"publications"`

	// Times are the waits that no site chooses.
	Times Times `yaml:"-"`

	clusters []*publication.Cluster
}

// Clusters are the publications, compiled, in the order of their names.
func (c *Config) Clusters() []*publication.Cluster { return c.clusters }

// Default returns the defaults of agent and publisher. Load fills in the defaults of imex
// and of each publication.
func Default() *Config {
	return &Config{Agent: defaultAgent(), Publisher: defaultPublisher(), Times: Times{Times: publication.DefaultTimes(), Read: probe.Every}}
}

// Load reads the file at path, and then the settings of the command line. The last
// setting of a key wins. An empty path reads no file. Keys that are set nowhere keep the
// value in defaults.
func Load(defaults *Config, path string, settings []Setting) (*Config, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read configuration: %w", show.Unopened(err, path, "a file with Quoin's configuration"))
		}
	}
	return Parse(defaults, path, data, settings)
}

// Parse reads the text of a file as Load does; path names the file in errors.
func Parse(defaults *Config, path string, data []byte, settings []Setting) (*Config, error) {
	c := *defaults
	r := &reader{path: path, places: map[string]string{}}
	if err := r.read(&c, data); err != nil {
		return nil, err
	}
	for _, s := range settings {
		if err := r.set(&c, s); err != nil {
			return nil, err
		}
	}
	pubs, err := r.publications()
	if err != nil {
		return nil, err
	}
	return &c, c.complete(r, pubs)
}

// publications returns the publications in the order of their names. Each gets the defaults first,
// and then its own keys.
func (r *reader) publications() ([]publication.Publication, error) {
	names := map[string]bool{}
	for _, n := range r.named {
		names[n.name] = true
	}
	if delete(names, everyName); len(names) == 0 {
		names[publication.DefaultName] = true
	}
	var all []publication.Publication
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := publication.Publication{Name: name}
		for i := range r.defaults {
			if err := r.defaults[i].Decode(&p); err != nil {
				return nil, err
			}
		}
		for i := range r.named {
			if n := &r.named[i]; n.name == name || n.name == everyName {
				if err := n.Decode(&p); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// complete fills in the defaults of publications and of imex, and checks all.
func (c *Config) complete(r *reader, pubs []publication.Publication) error {
	clusters, pubsErr := publication.Compile(pubs, kube.ParseSelector)
	joined, imexErr := c.IMEX.Complete()
	c.clusters, c.IMEX = clusters, joined
	c.PublicationDefaults, c.Publications = publication.Publication{}, map[string]publication.Publication{} // the defaults are in each
	for _, cluster := range clusters {
		cluster.Times = c.Times.Times
		c.Publications[cluster.Name] = cluster.Publication
	}
	var wrong []error
	for _, e := range slices.Concat(unjoin(pubsErr), c.needNodes(), unjoin(imexErr)) {
		if field, ok := errors.AsType[*publication.FieldError](e); ok {
			e = fmt.Errorf("%s%w", r.before("publications.*."+field.Key, below(below(publicationsKey, field.Name), field.Key), below(defaultsKey, field.Key)), e)
		} else if field, ok := errors.AsType[*imex.FieldError](e); ok {
			e = fmt.Errorf("%s%w", r.before("imex."+field.Key), e)
		}
		wrong = append(wrong, e)
	}
	own := checks{reader: r, section: "agent"}
	c.Agent.check(&own)
	own.section = "publisher"
	c.Publisher.check(&own)
	return errors.Join(append(wrong, own.found...)...)
}

// needNodes says of a publication that it writes on Nodes what a directory cannot hold.
func (c *Config) needNodes() (wrong []error) {
	if c.Publisher.Store == "" {
		return nil
	}
	for _, cluster := range c.clusters {
		if cluster.Labels {
			wrong = append(wrong, &publication.FieldError{Name: cluster.Name, Key: "labels", Message: `"true": want false beside publisher.store: a directory has no Nodes`})
		}
	}
	return wrong
}

func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// Write prints a configuration that Load reads as it is.
func (c *Config) Write(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return enc.Close()
}
