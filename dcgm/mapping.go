// Package dcgm writes the job mapping directory that DCGM Exporter reads, and
// knows the ids that DCGM has for GPUs.
//
// The exporter reads the directory at any moment, without a lock. It fails a whole
// scrape if a file vanishes or has a line that cannot be printed. So no file is
// truncated or removed: a file is written in a folder beside and exchanged with the
// old one. A line is written only if it is a job id of harmless characters.
//
// On a full disk no new file can be written. Then a spare file, which is already there,
// is overwritten and exchanged with the GPU's file, which is the next spare.
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
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

const (
	stagingFolder = ".quoin"
	bootFile      = "boot"
	// spareFile, in there, keeps room for one file of a GPU on a disk that is full.
	spareFile = "spare"
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

// BootMarker is the file that names the boot that the mapping files are of.
func (m Mapping) BootMarker() string { return filepath.Join(m.Staging(), bootFile) }

// MakeStaging makes that folder if it is missing. A link in its place is refused, because
// files would be written where it leads.
func (m Mapping) MakeStaging() error {
	staging := m.Staging()
	info, err := os.Lstat(staging)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(staging, 0o755)
	} else if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder: remove it", staging)
	}
	if err != nil {
		return fmt.Errorf("make mapping directory: %w", err)
	}
	return nil
}

// Add puts the job's id into the file of each of the exporter's ids.
func (m Mapping) Add(id string, gpus []string) error {
	if err := CheckJobID(id); err != nil || m.Dir == NoMapping {
		return err
	}
	m.keepSpare() // first: the disk may be full when the label has to go again
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
	marker := m.BootMarker()
	if marked, err := atomicfile.Read(marker); err == nil && string(bytes.TrimSpace(marked)) == boot {
		return nil, nil
	}
	if err := m.MakeStaging(); err != nil {
		return nil, err
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
	if info, err := os.Lstat(m.Staging()); err == nil && info.IsDir() && m.Dir != NoMapping {
		atomicfile.Tidy(m.Staging())
	}
}

// each changes the lines of every file and writes the files that differ. It goes on
// after an error, so that one bad file costs one GPU its label.
func (m Mapping) each(gpus []string, change func([]string) []string) error {
	var failed error
	for _, gpu := range gpus {
		if !IsExporterID(gpu) {
			failed = errors.Join(failed, fmt.Errorf("exporter id %.80q: want a number, or two with a dot between", gpu))
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
	if err := m.MakeStaging(); err != nil {
		return err
	}
	err = atomicfile.Replace(staging, path, text)
	// A missing file would take the spare away, and with it the room to release the GPU.
	if isFull(err) && !missing && m.writeSpare(path, text) == nil {
		return nil
	}
	return err
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// keepSpare makes the spare file if there is none. If the disk has no room for it, it has
// none for a label either, and that error is the one to report.
func (m Mapping) keepSpare() {
	spare := filepath.Join(m.Staging(), spareFile)
	if _, err := os.Lstat(spare); errors.Is(err, fs.ErrNotExist) && m.MakeStaging() == nil {
		_ = atomicfile.Write(spare, []byte(blankLine))
	}
}

// writeSpare writes text into the spare file and exchanges it with a GPU's file. Whenever
// the writer is killed, the exporter sees the old file or the new one, whole.
func (m Mapping) writeSpare(path string, text []byte) error {
	spare := filepath.Join(m.Staging(), spareFile)
	f, err := atomicfile.Open(spare, unix.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	// The file is cut after it was written: to cut it first would give its room away.
	if err = ownFile(f); err == nil {
		err = waitForReaders(f)
	}
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if unix.Renameat2(unix.AT_FDCWD, spare, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE) != nil {
		return os.Rename(spare, path) // as in atomicfile; the old file's room is free now
	}
	return nil
}

// ownFile refuses a file that has a second name, because its text may be somebody else's.
func ownFile(f *os.File) error {
	var is unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &is); err != nil {
		return fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	if is.Nlink != 1 {
		return fmt.Errorf("%s has %d names: remove it", f.Name(), is.Nlink)
	}
	return nil
}

// readerWait bounds the wait for a reader, and readerPause is the time between two looks.
const (
	readerWait  = 200 * time.Millisecond
	readerPause = time.Millisecond
)

// waitForReaders waits until nobody else has the spare file open. A reader that opened it as
// a GPU's file must not see it change. The kernel gives a lease only if nobody else has the
// file open.
func waitForReaders(f *os.File) error {
	for end := time.Now().Add(readerWait); ; time.Sleep(readerPause) {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		if err == nil {
			_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
			return err
		}
		if !errors.Is(err, unix.EAGAIN) {
			return nil //nolint:nilerr // the file system knows no leases
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s is still being read: %w", f.Name(), err)
		}
	}
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
