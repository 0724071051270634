package dcgm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// stagingFolder is on the exporter's mount and has a name that it ignores.
	stagingFolder = ".quoin"
	// bootFile, in there, names the boot that the mapping files are of.
	bootFile = "boot"
)

// bootIDFile is a variable for tests.
var bootIDFile = "/proc/sys/kernel/random/boot_id"

// BootID is the node's boot; empty where it cannot be read.
func BootID() string {
	boot, _ := readFile(bootIDFile)
	return strings.TrimSpace(string(boot))
}

// Mapping is DCGM Exporter's job mapping directory.
type Mapping struct {
	// Dir is the directory that the exporter reads. It is made when it is
	// missing and never replaced, for the exporter's mount would keep the old.
	Dir string
	// Unlink releases a GPU by removing its file instead of emptying it.
	Unlink bool
	// RunDir is the caller's, for Shared.
	RunDir string
}

// Add puts the job's id into the file of each of the exporter's ids.
func (m Mapping) Add(id string, gpus []string) error {
	if err := CheckJobID(id); err != nil {
		return err
	}
	if err := m.Mark(); err != nil {
		return err
	}
	return m.each(gpus, func(lines []string) []string {
		return append(lines, id)
	})
}

// Remove takes the job's id, and no other, out of the files of the exporter's
// ids.
func (m Mapping) Remove(id string, gpus []string) error {
	if _, err := os.Stat(m.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return m.each(gpus, func(lines []string) []string {
		return slices.DeleteFunc(lines, func(l string) bool { return l == id })
	})
}

// Holding lists the exporter's ids whose files name the job.
func (m Mapping) Holding(id string) ([]string, error) {
	entries, err := os.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read mapping directory: %w", err)
	}
	var gpus []string
	for _, e := range entries {
		if !isExporterID(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if lines, err := m.read(e.Name()); err == nil && slices.Contains(lines, id) {
			gpus = append(gpus, e.Name())
		}
	}
	return gpus, nil
}

// Sweep releases all GPUs once after a boot, for no job has outlived it, and
// returns the exporter's ids of those that were labelled. The caller holds the
// lock.
func (m Mapping) Sweep() (released []string, err error) {
	boot, err := readFile(bootIDFile)
	if err != nil || len(bytes.TrimSpace(boot)) == 0 {
		return nil, nil //nolint:nilerr // it cannot be told, and so nothing is touched
	}
	staging := filepath.Join(m.Dir, stagingFolder)
	marker := filepath.Join(staging, bootFile)
	if was, err := readFile(marker); err == nil && bytes.Equal(was, boot) {
		return nil, nil
	}
	if err := os.MkdirAll(staging, 0o755); err != nil {
		return nil, fmt.Errorf("make mapping directory: %w", err)
	}
	unlock, err := m.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if was, err := readFile(marker); err == nil && bytes.Equal(was, boot) {
		return nil, nil // another run directory's hook was first
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("read mapping directory: %w", err)
	}
	// The marker is made first and put in place last: without room for it
	// nothing is released, for the next hook would release this boot's jobs.
	fresh, err := stage(staging, marker, boot)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, e := range entries {
		if !isExporterID(e.Name()) {
			continue
		}
		labelled := false
		if err := m.one(staging, e.Name(), func(lines []string) []string {
			labelled = len(lines) > 0
			return nil
		}); err != nil {
			failed = errors.Join(failed, err)
		} else if labelled {
			released = append(released, e.Name())
		}
	}
	m.forgetWriters()
	return released, errors.Join(failed, put(fresh, marker))
}

// Tidy removes what killed writers have left.
func (m Mapping) Tidy() { tidy(filepath.Join(m.Dir, stagingFolder)) }

// each changes the lines of every file and writes those that differ. It goes on
// after an error, so that one bad file costs one GPU its label.
func (m Mapping) each(gpus []string, change func([]string) []string) error {
	if len(gpus) == 0 {
		return nil
	}
	staging := filepath.Join(m.Dir, stagingFolder)
	if err := os.MkdirAll(staging, 0o755); err != nil {
		if !slices.ContainsFunc(gpus, func(gpu string) bool { return m.differs(gpu, change) }) {
			return nil // nothing to write, where nothing can be written
		}
		return fmt.Errorf("make mapping directory: %w", err)
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var failed error
	for _, gpu := range gpus {
		if !isExporterID(gpu) {
			failed = errors.Join(failed, fmt.Errorf("exporter id %q: want a number, or two with a dot between", gpu))
			continue
		}
		if err := m.one(staging, gpu, change); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// differs says whether a change would write a GPU's file.
func (m Mapping) differs(gpu string, change func([]string) []string) bool {
	was, err := m.read(gpu)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return !slices.Equal(was, change(slices.Clone(was)))
}

func (m Mapping) one(staging, gpu string, change func([]string) []string) error {
	was, err := m.read(gpu)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	is := change(slices.Clone(was))
	slices.Sort(is)
	is = slices.Compact(is)
	path := filepath.Join(m.Dir, gpu)
	switch {
	case len(is) == 0 && m.Unlink:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("release GPU %s: %w", gpu, err)
		}
		return nil
	case slices.Equal(was, is) && (!missing || len(is) == 0):
		return nil
	}
	var text []byte
	for _, l := range is {
		text = append(append(text, l...), '\n')
	}
	err = replace(staging, path, text)
	if len(is) == 0 && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		// No room for an empty file. What is cut to nothing is read whole or empty.
		err = os.Truncate(path, 0)
	}
	return err
}

// read returns the good lines of a GPU's file; others are dropped at the next
// write.
func (m Mapping) read(gpu string) ([]string, error) {
	data, err := readFile(filepath.Join(m.Dir, gpu))
	if err != nil {
		return nil, fmt.Errorf("read mapping of GPU %s: %w", gpu, err)
	}
	var lines []string
	for line := range bytes.Lines(data) {
		if l := strings.TrimRight(string(line), "\r\n"); isJobID(l) {
			lines = append(lines, l)
		}
	}
	return lines, nil
}
