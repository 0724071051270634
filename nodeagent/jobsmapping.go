package nodeagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// bootMarker, in the mapping directory, names the boot that its lines are of. The
// hook writes it.
const bootMarker = ".quoin/boot"

// mappingDir is what a directory of the exporter holds, as it was last looked at.
type mappingDir struct {
	there bool
	boot  string
	files map[string]mappingFile
}

// mappingFile is one file of it, by the exporter's name of a device.
type mappingFile struct {
	stamp fileStamp
	lines []string
	// odd says that it is no file, or has what is no job's id: the exporter may
	// fail on it.
	odd bool
}

// mappingLine is one line of one file.
type mappingLine struct{ dir, name, job string }

// refresh looks at the directory, and reads the files that have changed. That it
// is missing is no error.
func (m *mappingDir) refresh(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		*m = mappingDir{}
		return nil
	} else if err != nil {
		return fmt.Errorf("read mapping directory: %w", err)
	}
	before := m.files
	m.there, m.files, m.boot = true, make(map[string]mappingFile, len(before)), readBoot(filepath.Join(dir, bootMarker))
	var failed error
	for _, e := range entries {
		if !isExporterName(e.Name()) {
			continue
		}
		info, err := os.Lstat(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by hand just now
		} else if err != nil || !info.Mode().IsRegular() {
			m.files[e.Name()] = mappingFile{odd: true}
			failed = errors.Join(failed, fmt.Errorf("%s: the exporter may fail on what is no file: remove it", filepath.Join(dir, e.Name())))
			continue
		}
		f, known := before[e.Name()]
		if stamp := stampOf(info); !known || f.stamp != stamp {
			if f, err = readMappingFile(filepath.Join(dir, e.Name()), stamp); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		m.files[e.Name()] = f
	}
	return failed
}

// isExporterName says whether a file of that name is one that the exporter reads:
// a number, or two with a dot between.
func isExporterName(name string) bool {
	gpu, instance, mig := strings.Cut(name, ".")
	return isNumber(gpu) && (!mig || isNumber(instance))
}

// readMappingFile reads a file that was replaced, never written in place, since it
// was looked at, or not.
func readMappingFile(path string, stamp fileStamp) (mappingFile, error) {
	f := mappingFile{stamp: stamp}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return mappingFile{}, nil
	} else if err != nil {
		return mappingFile{odd: true}, fmt.Errorf("read mapping: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" && len(data) == len("\n") {
			break // released
		}
		if dcgm.CheckJobID(line) != nil {
			f.odd = true
			continue
		}
		f.lines = append(f.lines, line)
	}
	if int64(len(data)) != stamp.size {
		f.stamp = fileStamp{} // replaced in between: it is read again
	}
	return f, nil
}

// mappingDirs lists the directories that have, or may have, lines of jobs.
func (j *Jobs) mappingDirs() map[string]bool {
	dirs := make(map[string]bool)
	for _, dir := range []string{j.config.MappingDir} {
		if dir != "" {
			dirs[dir] = true
		}
	}
	for _, b := range j.jobs {
		dirs[j.dirOf(b)] = true
	}
	for dir, m := range j.mappings {
		if m.there && dir != "" {
			dirs[dir] = true
		}
	}
	return dirs
}

// dirOf is the directory that has a job's lines.
func (j *Jobs) dirOf(b *job) string {
	if b.record.MappingDir == "" {
		return j.config.MappingDir
	}
	return filepath.Clean(b.record.MappingDir)
}

// lookAtMappings looks at all directories.
func (j *Jobs) lookAtMappings() {
	dirs := j.mappingDirs()
	for dir := range j.mappings {
		if !dirs[dir] {
			delete(j.mappings, dir)
		}
	}
	var failed error
	for dir := range dirs {
		if j.mappings[dir] == nil {
			j.mappings[dir] = &mappingDir{}
		}
		failed = errors.Join(failed, j.mappings[dir].refresh(dir))
	}
	j.say("job mapping", failed)
	j.keepInventory()
}

// keepInventory leaves the inventory where the hook finds it after a boot.
func (j *Jobs) keepInventory() {
	m := j.mappings[j.config.MappingDir]
	if m == nil || !m.there || j.inventory.of == nil || j.inventory.stamp == j.kept {
		return
	}
	err := rundir.KeepInventory(dcgm.Mapping{Dir: j.config.MappingDir}, *j.inventory.of)
	if err == nil {
		j.kept = j.inventory.stamp
	}
	j.say("copy of the inventory", err)
}
