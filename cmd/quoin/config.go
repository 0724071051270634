package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
)

// config is the one file of agent and publisher.
type config struct {
	// Publications are the Slurm clusters that get files.
	Publications []publisher.Publication `yaml:"publications"`
}

// loadConfig reads the file at path; an empty path gives the defaults.
func loadConfig(path string) (*config, error) {
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
			c, err := loadConfig(path)
			if err != nil {
				return err
			}
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
