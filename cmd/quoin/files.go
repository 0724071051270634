package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/reports"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
)

// filesOptions are the flags of a command that judges files. Either the files exist, or the command
// makes them first.
type filesOptions struct {
	renderOptions
	files string
}

func (o *filesOptions) addFlags(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.files, "files", "", usage)
	o.renderOptions.addFlags(cmd, "text", outputJSON)
	for _, other := range []string{"nodes", "kubeconfig"} {
		cmd.MarkFlagsMutuallyExclusive("files", other)
	}
}

// print prints a result in the form that is asked for, and returns the exit code.
func (o *renderOptions) print(w io.Writer, r *show.Result) error {
	if o.output == outputJSON {
		return r.JSON(w)
	}
	return r.Print(w).AsError()
}

const gresFile = "gres.conf"

// slurmFiles are the files for Slurm. If both topology files exist, Slurm reads the first one.
var slurmFiles = []string{"topology.yaml", "topology.conf", gresFile}

// isTopology says that a file is no gres.conf.
func isTopology(f lint.File) bool { return !strings.HasSuffix(f.Name, gresFile) }

// read returns the files that Slurm should have, in the order of slurmFiles. whole are the same files
// with all known nodes in them, even if the nodes register with their places. r gets the reports that
// cannot be read.
func (o *filesOptions) read(ctx context.Context, stdin io.Reader, r *show.Result, paths []string) (wanted, whole []lint.File, err error) {
	switch {
	case o.files != "" && len(paths) > 0:
		return nil, nil, errors.New("--files beside reports: want one of them")
	case o.files != "":
		wanted, err = readFiles(o.files)
		return wanted, wanted, err
	case o.nodes == "" && o.kubeconfig == "" && len(paths) == 0:
		return nil, nil, errors.New("no files: want --files PATH, --nodes FILE (- for standard input), --kubeconfig FILE, or reports as arguments")
	}
	made, _, err := o.render(ctx, stdin, paths)
	if err != nil {
		return nil, nil, err
	}
	if made.Refused != "" {
		return nil, nil, errors.New(made.Message)
	}
	r.Found(reports.Unread(made.Problems)...)
	all, err := made.Whole()
	return inOrder(made.Files), inOrder(all), err
}

// inOrder returns files in the order of slurmFiles.
func inOrder(files map[string]string) (out []lint.File) {
	for _, name := range slurmFiles {
		if text, ok := files[name]; ok {
			out = append(out, lint.File{Name: name, Data: []byte(text)})
		}
	}
	return out
}

// readFiles reads a file, or the files for Slurm in a directory.
func readFiles(path string) ([]lint.File, error) {
	paths := []string{path}
	if isDirectory(path) {
		paths = nil
		for _, name := range slurmFiles {
			if p := filepath.Join(path, name); exists(p) {
				paths = append(paths, p)
			}
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("%s: no topology.yaml, no topology.conf and no gres.conf in it", path)
		}
	}
	out := make([]lint.File, len(paths))
	for i, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("read files: %w", err)
		}
		out[i] = lint.File{Name: p, Data: data}
	}
	return out, nil
}
