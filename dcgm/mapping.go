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

// blankLine is the whole file of a GPU that no job holds. The exporter gives the
// GPU's samples hpc_job="", which Prometheus takes for no label. For an empty file,
// exporters before 4.3.1 would drop the GPU's series.
const blankLine = "\n"

// Mapping is DCGM Exporter's job mapping directory.
type Mapping struct {
	// Dir is the directory that the exporter reads. A missing one is made. It is never
	// replaced, because the exporter's mount would keep the old one.
	Dir string
}

// Folder is Quoin's own folder in the directory.
func (m Mapping) Folder() Folder { return Folder(filepath.Join(m.Dir, ownFolder)) }

// Set implements Labels: it puts the job's id into the file of each GPU.
func (m Mapping) Set(job string, ids []string) error {
	if err := CheckJobID(job); err != nil {
		return err
	}
	m.keepSpare() // first: the disk may be full when the label has to go again
	return m.each(ids, func(lines []string) []string {
		return append(lines, job)
	})
}

// Clear implements Labels: it takes the job's id out of the files of the GPUs.
func (m Mapping) Clear(job string, ids []string) error {
	if _, err := os.Stat(m.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return m.each(ids, func(lines []string) []string {
		return slices.DeleteFunc(lines, func(l string) bool { return l == job })
	})
}

// Held implements Labels. A missing directory is no error.
func (m Mapping) Held() (Held, error) {
	entries, err := os.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Held{}, nil
	} else if err != nil {
		return Held{}, fmt.Errorf("read mapping directory: %w", err)
	}
	boot, _ := atomicfile.Read(m.Folder().boot()) // empty if it cannot be read
	h := Held{Boot: strings.TrimSpace(string(boot)), Files: make(map[string]File)}
	var failed error
	for _, e := range entries {
		if !IsExporterID(e.Name()) {
			continue
		}
		f, err := File{Odd: true}, error(nil)
		if e.Type().IsRegular() {
			f, err = m.read(e.Name())
		} else {
			err = fmt.Errorf("%s is no file: the exporter may fail on it; remove it", filepath.Join(m.Dir, e.Name()))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by hand just now
		}
		h.Files[e.Name()], failed = f, errors.Join(failed, err)
	}
	return h, failed
}

// Sweep implements Labels.
func (m Mapping) Sweep(boot string, mayMake bool) (released []string, err error) {
	if boot == "" {
		return nil, nil
	}
	folder := m.Folder()
	marker := folder.boot()
	if marked, err := atomicfile.Read(marker); err == nil && string(bytes.TrimSpace(marked)) == boot {
		return nil, nil
	}
	if _, err := os.Stat(m.Dir); errors.Is(err, fs.ErrNotExist) && !mayMake {
		return nil, nil
	}
	if err := folder.Make(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("read mapping directory: %w", err)
	}
	// The marker is made first and put in place last. Without room for the marker
	// nothing is released, because the next hook would release this boot's jobs.
	fresh, err := atomicfile.Stage(string(folder), marker, []byte(boot+"\n"))
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
	file, err := m.read(gpu)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	before := file.Jobs
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
	folder, path := m.Folder(), filepath.Join(m.Dir, gpu)
	if err := folder.Make(); err != nil {
		return err
	}
	err = atomicfile.Replace(string(folder), path, text)
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
	folder := m.Folder()
	spare := folder.spare()
	if _, err := os.Lstat(spare); errors.Is(err, fs.ErrNotExist) && folder.Make() == nil {
		_ = atomicfile.Write(spare, []byte(blankLine))
	}
}

// writeSpare writes text into the spare file and exchanges it with a GPU's file. Whenever
// the writer is killed, the exporter sees the old file or the new one, whole.
func (m Mapping) writeSpare(path string, text []byte) error {
	spare := m.Folder().spare()
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

// read returns what a GPU's file says. The next write drops odd lines.
func (m Mapping) read(gpu string) (File, error) {
	data, err := atomicfile.Read(filepath.Join(m.Dir, gpu))
	if err != nil {
		return File{Odd: true}, fmt.Errorf("read mapping of GPU %s: %w", gpu, err)
	}
	var f File
	if string(data) == blankLine {
		return f, nil // released
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\r\n"); isJobID(line) {
			f.Jobs = append(f.Jobs, line)
		} else {
			f.Odd = true
		}
	}
	return f, nil
}
