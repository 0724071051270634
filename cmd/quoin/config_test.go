package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
)

// TestManifestArgs gives this program the arguments and the configuration that
// the manifests do.
func TestManifestArgs(t *testing.T) {
	type manifest struct {
		Data map[string]string
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Args []string }
				}
			}
		}
	}
	files, err := filepath.Glob("../../manifests/plain/*/[0-9]*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	commands, configs := 0, 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for dec := yaml.NewDecoder(f); ; {
			var m manifest
			if err := dec.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, c := range m.Spec.Template.Spec.Containers {
				commands++
				cmd, args, err := newRootCommand().Find(c.Args)
				if err == nil {
					err = cmd.ParseFlags(args)
				}
				if err != nil {
					t.Errorf("%s: %v: %v", file, c.Args, err)
				}
			}
			if text, ok := m.Data["quoin.yaml"]; ok {
				configs++
				if _, err := config.Parse(config.Default(), "quoin.yaml", []byte(text), nil); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
	if commands != 3 || configs != 2 {
		t.Errorf("found %d commands and %d configurations, want 3 and 2", commands, configs)
	}
}
