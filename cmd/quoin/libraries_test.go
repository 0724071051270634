package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLibraries holds that Quoin's own code imports the libraries of the field that do a part of its
// work. Tests do not count.
func TestLibraries(t *testing.T) {
	imported := map[string]bool{
		"github.com/NVIDIA/go-dcgm":           false,
		"github.com/NVIDIA/go-nvml":           false,
		"github.com/fsnotify/fsnotify":        false,
		"github.com/prometheus/client_golang": false,
		"gopkg.in/yaml.v3":                    false,
		"k8s.io/client-go":                    false,
		"k8s.io/dynamic-resource-allocation":  false,
		"sigs.k8s.io/dra-driver-nvidia-gpu":   false,
	}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || path == "../../test"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			for module := range imported {
				imported[module] = imported[module] || name == module || strings.HasPrefix(name, module+"/")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for module, is := range imported {
		if !is {
			t.Errorf("nothing but tests imports %s", module)
		}
	}
}
