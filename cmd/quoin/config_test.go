package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"
)

// FuzzConfig checks that what is read as a configuration prints as one that
// reads the same.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("agent: {interval: 5s}\npublisher:\n  listen: ''\n"))
	f.Add([]byte("publications:\n- name: a\n  settle: 0s\n  maxChange: 0\n  nodes: {selector: 'a in (b)'}\n  blockSizes: [2, 4]\n"))
	f.Add([]byte("publications: &a\n- name: b\n  tierLabels: *a\n"))
	printed := func(data []byte) ([]byte, error) {
		c, err := parseConfig("q.yaml", data)
		if err != nil {
			return nil, err
		}
		return yaml.Marshal(c)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := printed(data)
		if err != nil {
			return
		}
		if twice, err := printed(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q prints\n%s\nwhich prints\n%s\n%v", data, once, twice, err)
		}
	})
}

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
	files, err := filepath.Glob("../../manifests/*.yaml")
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
				if _, err := parseConfig("quoin.yaml", []byte(text)); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
	if commands != 3 || configs != 1 {
		t.Errorf("found %d commands and %d configurations, want 3 and 1", commands, configs)
	}
}
