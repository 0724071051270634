package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// member is a file of an archive.
type member struct {
	name, path string
	mode       int64
}

// pathOf is the path of one file of this release.
func (s *source) pathOf(dir, rest string) string {
	return filepath.Join(dir, "quoin-"+s.version+rest)
}

// writeMembers writes members, sorted by their names, into one compressed archive.
func (s *source) writeMembers(path string, members []member) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed := gzip.NewWriter(file)
	w := tar.NewWriter(packed)
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for _, m := range members {
		if err := s.add(w, m.name, m.path, m.mode); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), packed.Close())
}

// writePrograms writes an archive of the programs of each architecture.
func (s *source) writePrograms(dir string, archs []string) (paths []string, err error) {
	for _, arch := range archs {
		folder := fmt.Sprintf("quoin-%s-linux-%s", s.version, arch)
		members := []member{{folder + "/LICENSE", filepath.Join(s.root, "LICENSE"), 0o644}}
		for _, name := range []string{"quoin", "quoin-hook"} {
			members = append(members, member{folder + "/" + name, s.program(arch, name), 0o755})
		}
		path := filepath.Join(dir, folder+".tar.gz")
		if err := s.writeMembers(path, members); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// writeChart writes the chart, as helm package does. That one writes the times of this machine's files.
func (s *source) writeChart(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(s.root, "manifests/chart/Chart.yaml"))
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"version", "appVersion"} {
		if !regexp.MustCompile(`(?m)^` + key + `: "?` + regexp.QuoteMeta(s.version) + `"?$`).Match(text) {
			return nil, fmt.Errorf("manifests/chart/Chart.yaml: %s is not %s, the Number of cmd/version", key, s.version)
		}
	}
	members, err := s.tree("manifests/chart", "quoin", func(name string) bool { return path.Ext(name) == ".orig" })
	if err != nil {
		return nil, err
	}
	path := s.pathOf(dir, "-chart.tgz")
	return []string{path}, s.writeMembers(path, members)
}

// linked are the pages elsewhere that those in manifests link to.
var linked = []string{"CHANGELOG.md", "FIGURES.md", "REASONS.md", "SECURITY.md", "cmd/quoin/METRICS.md", "topology/README.md"}

// writeManifests writes an archive of the folder manifests, without the Go code of this program and of tests, and
// of the pages that it links to. In its folder the commands of the pages for helm and kubectl work as they are printed.
func (s *source) writeManifests(dir string) ([]string, error) {
	members, err := s.tree("manifests", "quoin-"+s.version+"/manifests", func(name string) bool { return name == "image" || path.Ext(name) == ".go" })
	if err != nil {
		return nil, err
	}
	for _, name := range append(slices.Clone(linked), "LICENSE") {
		members = append(members, member{"quoin-" + s.version + "/" + name, filepath.Join(s.root, name), 0o644})
	}
	path := s.pathOf(dir, "-manifests.tar.gz")
	return []string{path}, s.writeMembers(path, members)
}

// tree returns the files below a folder of the source as members below another folder. It leaves out the
// files and folders for whose paths, relative to the folder, omit says so.
func (s *source) tree(from, to string, omit func(name string) bool) (members []member, err error) {
	root := filepath.Join(s.root, from)
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, at)
		switch {
		case err != nil:
			return err
		case omit(name) && d.IsDir():
			return filepath.SkipDir
		case omit(name) || d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		members = append(members, member{path.Join(to, name), at, mode})
		return nil
	})
	return members, err
}

// writeSums writes SHA256SUMS of all files in the folder, for sha256sum -c.
func writeSums(dir string) ([]string, error) {
	const name = "SHA256SUMS"
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, f := range files {
		if f.Name() == name {
			continue
		}
		sum, err := digest(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%x  %s\n", sum, f.Name())
	}
	path := filepath.Join(dir, name)
	return []string{path}, os.WriteFile(path, out.Bytes(), 0o644)
}

func digest(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return sum.Sum(nil), err
}
