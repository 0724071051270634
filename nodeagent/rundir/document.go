package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// The bounds of the files of the run directory. A container with slurmd may write these files,
// and root acts on them. At worst labels of jobs may be wrong.
const (
	// MaxDevices is how many devices an inventory has and a job holds.
	MaxDevices = 1024
	// MaxWarnings is how many warnings the record of a job has.
	MaxWarnings = 16
	// maxDocument bounds a file of a job, in bytes, and maxList a list in it that Slurm wrote.
	// Other text of a job has topology.MaxText.
	maxDocument = 1 << 20
	maxList     = 16 << 10
)

// decode reads a document of a kind. It leaves out unknown keys, because the document
// may be of a newer release, and without it GPUs would get wrong labels or none.
func decode(data []byte, kind string, into any) error {
	if len(data) > maxDocument {
		return fmt.Errorf("it has %d bytes: want %d at most", len(data), maxDocument)
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.APIVersion != topology.APIVersion || head.Kind != kind {
		return fmt.Errorf("apiVersion %.80q, kind %.80q: want %q, %q", head.APIVersion, head.Kind, topology.APIVersion, kind)
	}
	return json.Unmarshal(data, into)
}

// writeJSON writes a document unless it is there already. The file, and the folder if that
// is missing, get these modes.
func writeJSON(path string, v any, file, dir fs.FileMode) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	data = append(data, '\n')
	if old, err := atomicfile.Read(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := makeFolder(filepath.Dir(path), dir); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.WriteMode(path, data, file)
}

// folder is a folder of the run directory with a document for each key of a record.
type folder string

func (d Dir) folder(name string) folder { return folder(filepath.Join(string(d), name)) }

// isKey knows the form of a record's key: a job id, followed by @cluster@node if the job
// id alone would name two jobs.
func isKey(key string) bool {
	return dcgm.ConsistsOf(key, 1, maxFileName-len(".json"), "_.+@-") && key[0] != '.' && key[0] != '@'
}

// check refuses a link in the folder's place: what is written and removed here would be
// written and removed where it leads. A missing folder is fine.
func (f folder) check() error {
	if info, err := os.Lstat(string(f)); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is no folder but of mode %s: remove it", string(f), info.Mode())
	}
	return nil
}

// path returns the file of a key.
func (f folder) path(key string) (string, error) {
	if !isKey(key) {
		return "", fmt.Errorf("key of a job's record %.80q: want the name of its file without .json", key)
	}
	if err := f.check(); err != nil {
		return "", err
	}
	return filepath.Join(string(f), key+".json"), nil
}

// keys lists the keys that have a document. A missing folder has none.
func (f folder) keys() ([]string, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list files of jobs: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if key, is := strings.CutSuffix(e.Name(), ".json"); is && isKey(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// read reads a key's document and says when it was written. The error is fs.ErrNotExist
// if there is none.
func (f folder) read(key, kind string, into any) (written time.Time, err error) {
	path, err := f.path(key)
	if err != nil {
		return written, err
	}
	data, written, err := atomicfile.ReadTime(path)
	if err != nil {
		return written, fmt.Errorf("read file of a job: %w", err)
	}
	if err := decode(data, kind, into); err != nil {
		return written, fmt.Errorf("%s: %w", path, err)
	}
	return written, nil
}

// write writes the document of a key of the job.
func (f folder) write(key, job string, v any) error {
	path, err := f.path(key)
	if err != nil {
		return err
	}
	if JobOfKey(key) != job {
		return fmt.Errorf("write %s: want a key of job %.80q", path, job)
	}
	return writeJSON(path, v, privateFile, privateDir)
}

// remove removes a key's document, which may be missing.
func (f folder) remove(key string) error {
	path, err := f.path(key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove file of a job: %w", err)
	}
	return nil
}
