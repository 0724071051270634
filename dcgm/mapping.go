// Package dcgm writes the job mapping directory that DCGM Exporter reads, and
// knows the ids that DCGM has for GPUs.
//
// The exporter reads the directory at any moment, without a lock. It fails a whole
// scrape if a file vanishes or has a line that cannot be printed. So no file is
// truncated or removed: a file is written in a folder beside and renamed over the
// old one. A line is written only if it is a job id of harmless characters.
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

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

const (
	stagingFolder = ".quoin"
	// bootFile, in there, names the boot that the mapping files are of.
	bootFile = "boot"
	// blankLine is the whole file of a GPU that no job holds. The exporter gives the
	// GPU's samples hpc_job="", which Prometheus takes for no label. For an empty file,
	// exporters before 4.3.1 would drop the GPU's series.
	blankLine = "\n"
)

// DefaultMappingDir is where the hook and the exporter look by default.
const DefaultMappingDir = "/var/lib/dcgm-exporter/job-mapping"

// NoMapping stands for the directory of a site whose exporter reads none.
const NoMapping = "none"

// Mapping is DCGM Exporter's job mapping directory. Nothing is written or read for
// NoMapping.
type Mapping struct {
	// Dir is the directory that the exporter reads. A missing one is made. It is never
	// replaced, because the exporter's mount would keep the old one.
	Dir string
}

// Staging is the folder of the files that are not yet in place. It is on the
// exporter's mount, and the exporter ignores its name.
func (m Mapping) Staging() string { return filepath.Join(m.Dir, stagingFolder) }

// Add puts the job's id into the file of each of the exporter's ids.
func (m Mapping) Add(id string, gpus []string) error {
	if err := CheckJobID(id); err != nil || m.Dir == NoMapping {
		return err
	}
	return m.each(gpus, func(lines []string) []string {
		return append(lines, id)
	})
}

// Remove takes the job's id, and no other, out of the files of the exporter's
// ids.
func (m Mapping) Remove(id string, gpus []string) error {
	if _, err := os.Stat(m.Dir); m.Dir == NoMapping || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return m.each(gpus, func(lines []string) []string {
		return slices.DeleteFunc(lines, func(l string) bool { return l == id })
	})
}

// Holding lists the exporter's ids whose files name the job.
func (m Mapping) Holding(id string) ([]string, error) {
	if m.Dir == NoMapping {
		return nil, nil
	}
	entries, err := os.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read mapping directory: %w", err)
	}
	var gpus []string
	for _, e := range entries {
		if !IsExporterID(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if lines, err := m.read(e.Name()); err == nil && slices.Contains(lines, id) {
			gpus = append(gpus, e.Name())
		}
	}
	return gpus, nil
}

// Sweep releases all GPUs once after a boot, because no job outlives a boot. It
// returns the exporter's ids of the GPUs that were labelled. The caller holds the
// run directory's lock. An empty boot is not known, and then nothing is touched.
func (m Mapping) Sweep(boot string) (released []string, err error) {
	if boot == "" || m.Dir == NoMapping {
		return nil, nil
	}
	staging := m.Staging()
	marker := filepath.Join(staging, bootFile)
	if marked, err := atomicfile.Read(marker); err == nil && string(bytes.TrimSpace(marked)) == boot {
		return nil, nil
	}
	if err := os.MkdirAll(staging, 0o755); err != nil {
		return nil, fmt.Errorf("make mapping directory: %w", err)
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("read mapping directory: %w", err)
	}
	// The marker is made first and put in place last. Without room for the marker
	// nothing is released, because the next hook would release this boot's jobs.
	fresh, err := atomicfile.Stage(staging, marker, []byte(boot+"\n"))
	if err != nil {
		return nil, err
	}
	var failed error
	for _, e := range entries {
		if !IsExporterID(e.Name()) {
			continue
		}
		labelled := false
		if err := m.one(e.Name(), func(lines []string) []string {
			labelled = len(lines) > 0
			return nil
		}); err != nil {
			failed = errors.Join(failed, err)
		} else if labelled {
			released = append(released, e.Name())
		}
	}
	return released, errors.Join(failed, atomicfile.Put(fresh, marker))
}

// Tidy removes what killed writers have left.
func (m Mapping) Tidy() {
	if m.Dir != NoMapping {
		atomicfile.Tidy(m.Staging())
	}
}

// each changes the lines of every file and writes the files that differ. It goes on
// after an error, so that one bad file costs one GPU its label.
func (m Mapping) each(gpus []string, change func([]string) []string) error {
	var failed error
	for _, gpu := range gpus {
		if !IsExporterID(gpu) {
			failed = errors.Join(failed, fmt.Errorf("exporter id %q: want a number, or two with a dot between", gpu))
			continue
		}
		if err := m.one(gpu, change); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// one changes the lines of one file, and makes the directory if there is none.
func (m Mapping) one(gpu string, change func([]string) []string) error {
	before, err := m.read(gpu)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	after := change(slices.Clone(before))
	slices.Sort(after)
	after = slices.Compact(after)
	if slices.Equal(before, after) && (!missing || len(after) == 0) {
		return nil
	}
	text := []byte(blankLine)
	if len(after) > 0 {
		text = []byte(strings.Join(after, "\n") + "\n")
	}
	staging, path := m.Staging(), filepath.Join(m.Dir, gpu)
	if err := os.MkdirAll(staging, 0o755); err != nil {
		return fmt.Errorf("make mapping directory: %w", err)
	}
	err = atomicfile.Replace(staging, path, text)
	if len(after) == 0 && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return releaseInPlace(path)
	}
	return err
}

// releaseInPlace cuts a file to nothing and then writes one blank line into it: the disk
// has no room for a new file. A reader never sees a part of a job's id.
func releaseInPlace(path string) error {
	if err := os.Truncate(path, 0); err != nil {
		return fmt.Errorf("release %s: %w", path, err)
	}
	if f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		_, _ = f.WriteString(blankLine) // an empty file is released too
		_ = f.Close()
	}
	return nil
}

// read returns the good lines of a GPU's file. The next write drops the others.
func (m Mapping) read(gpu string) ([]string, error) {
	data, err := atomicfile.Read(filepath.Join(m.Dir, gpu))
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
