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
	"os"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
)

// Config is the configuration of all commands.
type Config struct {
	// Agent configures quoin agent, and commands that read a machine.
	Agent Agent `yaml:"agent"`
	// Publisher configures quoin publisher.
	Publisher Publisher `yaml:"publisher"`
	// IMEX says how nodes join one IMEX domain.
	IMEX imex.Config `yaml:"imex"`
	// Publications are the Slurm clusters that get files.
	Publications []publisher.Publication `yaml:"publications"`
}

// Default returns the defaults of agent and publisher. Load fills in the defaults of imex
// and of each publication.
func Default() *Config {
	return &Config{Agent: defaultAgent(), Publisher: defaultPublisher()}
}

// Load reads the file at path, and then the settings of the command line. The last
// setting of a key wins. An empty path reads no file. Keys that are set nowhere keep the
// value in defaults.
func Load(defaults *Config, path string, settings []Setting) (*Config, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
	}
	return Parse(defaults, path, data, settings)
}

// Parse reads the text of a file as Load does; path names the file in errors.
func Parse(defaults *Config, path string, data []byte, settings []Setting) (*Config, error) {
	doc, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		if err := doc.set(s); err != nil {
			return nil, err
		}
	}
	c := *defaults
	if err := doc.decode(&c); err != nil {
		return nil, err
	}
	return &c, c.complete(doc)
}

// complete fills in the defaults of publications and of imex, and checks all.
func (c *Config) complete(doc *document) error {
	var wrong []error
	pubs, err := publisher.Complete(c.Publications)
	for _, e := range unjoin(err) {
		if field := (*publisher.FieldError)(nil); errors.As(e, &field) {
			e = doc.wrong(fmt.Sprintf("publications[%d].%s", field.Index, field.Key), field.Message, e)
		}
		wrong = append(wrong, e)
	}
	joined, err := c.IMEX.Complete()
	for _, e := range unjoin(err) {
		if field := (*imex.FieldError)(nil); errors.As(e, &field) {
			e = doc.wrong("imex."+field.Key, field.Message, e)
		}
		wrong = append(wrong, e)
	}
	for section, found := range map[string][]wrongValue{"agent": c.Agent.check(), "publisher": c.Publisher.check()} {
		for _, w := range found {
			key := section + "." + w.key
			wrong = append(wrong, doc.wrong(key, w.message, fmt.Errorf("%s: %s", key, w.message)))
		}
	}
	c.Publications, c.IMEX = pubs, joined
	return errors.Join(wrong...)
}

// wrongValue is a value that a key of a section cannot have.
type wrongValue struct {
	key     string // below the section
	message string // the value and what is wanted
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

// Keys lists all keys, such as agent.runDir and publications.format.
func Keys() []string {
	var out []string
	for k := range keysBelow("", configType) {
		out = append(out, k)
	}
	return out
}

// Value returns the default of a key as text; it is empty for a key of publications
// or imex.
func (c *Config) Value(key string) string {
	section, name, _ := strings.Cut(key, ".")
	v, ok := fieldNamed(valueOf(c), section)
	if ok {
		v, ok = fieldNamed(v, name)
	}
	if !ok || v.IsZero() {
		return ""
	}
	return fmt.Sprint(v.Interface())
}
