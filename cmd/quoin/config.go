package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
)

// config is the one file of agent and publisher.
type config struct {
	// Agent and Publisher set flags of these commands: the key runDir is the
	// flag --run-dir. What the command line says goes before.
	Agent     yaml.Node `yaml:"agent"`
	Publisher yaml.Node `yaml:"publisher"`
	// Publications are the Slurm clusters that get files.
	Publications []publisher.Publication `yaml:"publications"`
}

// loadConfig reads the file at path; an empty path gives the defaults. The
// section's values become those of the flags that the command line left out.
func loadConfig(path string, section func(*config) *yaml.Node, flags *pflag.FlagSet) (*config, error) {
	c, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	return c, setFlags(path, section(c), flags)
}

func agentSection(c *config) *yaml.Node     { return &c.Agent }
func publisherSection(c *config) *yaml.Node { return &c.Publisher }

// setFlags gives the flags that the command line left out the values of a
// section.
func setFlags(path string, section *yaml.Node, flags *pflag.FlagSet) error {
	if section.IsZero() || section.Tag == "!!null" {
		return nil
	}
	if section.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: want keys and values, such as runDir: /run/quoin", path, section.Line)
	}
	byKey := make(map[string]*pflag.Flag)
	for _, f := range configurable(flags) {
		byKey[keyOf(f)] = f
	}
	var errs []error
	for i := 0; i < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		f, ok := byKey[key.Value]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s:%d: unknown key %q: want %s", path, key.Line, key.Value, strings.Join(slices.Sorted(maps.Keys(byKey)), ", ")))
		case value.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("%s:%d: %s: want one value", path, value.Line, key.Value))
		case !f.Changed:
			if err := f.Value.Set(value.Value); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %s %q: want a %s such as %s", path, value.Line, key.Value, value.Value, f.Value.Type(), f.DefValue))
			}
		}
	}
	return errors.Join(errs...)
}

// configurable returns the flags that the file may set: not the file itself,
// nor what differs from node to node.
func configurable(flags *pflag.FlagSet) []*pflag.Flag {
	var out []*pflag.Flag
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "node" && f.Name != "help" {
			out = append(out, f)
		}
	})
	return out
}

// keyOf returns the flag's key in the file: run-dir is runDir.
func keyOf(f *pflag.Flag) string {
	words := strings.Split(f.Name, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// fill sets the section to the values of all flags, defaults included.
func fill(section *yaml.Node, flags *pflag.FlagSet) {
	*section = yaml.Node{Kind: yaml.MappingNode}
	for _, f := range configurable(flags) {
		value := &yaml.Node{}
		value.SetString(f.Value.String())
		section.Content = append(section.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: keyOf(f)}, value)
	}
}

func readConfig(path string) (*config, error) {
	c := &config{}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		if err := c.parse(path, data); err != nil {
			return nil, err
		}
	}
	pubs, err := publisher.Complete(c.Publications)
	if err != nil {
		if path != "" {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return nil, err
	}
	c.Publications = pubs
	return c, nil
}

func (c *config) parse(path string, data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(c)
	var typ *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &typ):
		var lines []error
		for _, e := range typ.Errors {
			lines = append(lines, errors.New(explain(path, e)))
		}
		return errors.Join(lines...)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: a second document: want one", path)
	}
	return nil
}

var unknownField = regexp.MustCompile(`^line (\d+): field (\S+) not found in type (\S+)$`)

var atLine = regexp.MustCompile(`^line (\d+): (.*)$`)

// explain turns an error of the YAML library into file, line, key and what is
// allowed.
func explain(path, message string) string {
	if m := unknownField.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s:%s: unknown key %q: want %s", path, m[1], m[2], strings.Join(keysOf(m[3]), ", "))
	}
	if m := atLine.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s:%s: %s", path, m[1], m[2])
	}
	return path + ": " + message
}

// keysOf lists the keys of a configuration type by its name in errors.
func keysOf(typeName string) []string {
	for _, t := range []reflect.Type{reflect.TypeFor[config](), reflect.TypeFor[publisher.Publication](), reflect.TypeFor[publisher.Selection]()} {
		if t.String() != typeName {
			continue
		}
		var keys []string
		for i := range t.NumField() {
			if tag := t.Field(i).Tag.Get("yaml"); tag != "" {
				keys = append(keys, tag)
			}
		}
		slices.Sort(keys)
		return keys
	}
	return nil
}

func newConfigCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration with its defaults filled in, or what is wrong with it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(path)
			if err != nil {
				return err
			}
			agent, pub := newAgentCommand().Flags(), newPublisherCommand().Flags()
			if err := errors.Join(setFlags(path, &c.Agent, agent), setFlags(path, &c.Publisher, pub)); err != nil {
				return err
			}
			fill(&c.Agent, agent)
			fill(&c.Publisher, pub)
			enc := yaml.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent(2)
			if err := enc.Encode(c); err != nil {
				return fmt.Errorf("print configuration: %w", err)
			}
			return enc.Close()
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`; default: the defaults alone")
	return cmd
}
