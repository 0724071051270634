// Package document keeps JSON documents of the node's run directory. Each has an apiVersion, a
// kind and bounds, and is whole or not there.
//
// A container with slurmd may write some of these files, and root acts on them. So the package refuses
// what is out of bounds. At worst labels of jobs may be wrong.
package document

import (
	"bytes"
	"cmp"
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

// Head is the first part of each document. The type of a document embeds Head.
type Head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func (h *Head) head() *Head { return h }

// HeadOf returns the head of a document of a kind.
func HeadOf(kind string) Head { return Head{topology.APIVersion, kind} }

// What the node knows of jobs is for root, and for a group that the site names: Slurm has
// PrivateData for the same reason. What no person needs to read is for root alone.
const (
	Public     fs.FileMode = 0o644
	Private    fs.FileMode = 0o640
	Own        fs.FileMode = 0o600
	PrivateDir fs.FileMode = 0o750
)

const (
	// maxDocument bounds a document, in bytes.
	maxDocument = 1 << 20
	suffix      = ".json"
	// maxKey is the longest key whose file can have a name, in bytes.
	maxKey = 255 - len(suffix)
)

// Store is a folder with documents of one kind, by the names of their files without .json. T embeds
// Head. The tags max and each of T bound a document as they bound a report. A method
// Check(key string) error of *T refuses what is within the bounds and still wrong.
type Store[T any] folder

type folder struct {
	Dir, Kind string
	// Mode is the mode of the files. The folder of Private files is private too.
	Mode fs.FileMode
	// Most is the most bytes of a document, 1 MiB if zero.
	Most int
	// OneLine leaves out all spaces between keys and values.
	OneLine bool
}

// Put writes a document unless it is there already.
func (s Store[T]) Put(key string, v T) error { return folder(s).put(key, &v) }

// Get reads a document and says when it was written. The error is fs.ErrNotExist if there is none.
// Unknown keys are left out, because the document may be of a newer release, and without the
// document GPUs would get wrong labels or none.
func (s Store[T]) Get(key string) (*T, time.Time, error) {
	v := new(T)
	written, err := folder(s).get(key, v)
	if err != nil {
		return nil, written, err
	}
	return v, written, nil
}

// Find reads a document as Get does. It returns nil without an error if there is none.
func (s Store[T]) Find(key string) (*T, time.Time, error) {
	v, written, err := s.Get(key)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return v, written, err
}

// Remove removes a document, which may be missing.
func (s Store[T]) Remove(key string) error { return folder(s).remove(key) }

// Keys lists the keys that have a document. A missing folder has none. Files of other names are
// none of Quoin's.
func (s Store[T]) Keys() ([]string, error) { return folder(s).keys() }

func (f folder) put(key string, v any) error {
	path, err := f.path(key)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Kind, err)
	}
	*headOf(v) = HeadOf(f.Kind)
	data, err := f.encode(v, key)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if old, err := atomicfile.Read(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	mode := fs.FileMode(0o755)
	if f.Mode == Private {
		mode = PrivateDir
	}
	if err := MakeFolder(f.Dir, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.WriteMode(path, data, f.Mode)
}

func (f folder) encode(v any, key string) (data []byte, err error) {
	if err := check(v, key); err != nil {
		return nil, err
	}
	if f.OneLine {
		data, err = json.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "  ")
	}
	data = append(data, '\n')
	return data, errors.Join(err, f.checkSize(data))
}

func (f folder) get(key string, v any) (written time.Time, err error) {
	path, err := f.path(key)
	if err != nil {
		return written, fmt.Errorf("read %s: %w", f.Kind, err)
	}
	data, written, err := atomicfile.ReadTime(path)
	if err != nil {
		return written, err
	}
	if err := f.decode(data, key, v); err != nil {
		return written, fmt.Errorf("%s: %w", path, err)
	}
	return written, nil
}

func (f folder) decode(data []byte, key string, v any) error {
	if err := f.checkSize(data); err != nil {
		return err
	}
	err := json.Unmarshal(data, v)
	if head, want := *headOf(v), HeadOf(f.Kind); head != want && (err == nil || head.Kind != "") {
		return fmt.Errorf("apiVersion %.80q, kind %.80q: want %q, %q", head.APIVersion, head.Kind, want.APIVersion, want.Kind)
	}
	if err != nil {
		return err
	}
	return check(v, key)
}

func (f folder) checkSize(data []byte) error {
	if most := cmp.Or(f.Most, maxDocument); len(data) > most {
		return fmt.Errorf("it has %d bytes: want %d at most", len(data), most)
	}
	return nil
}

func check(v any, key string) error {
	err := topology.CheckBounds(v)
	if c, is := v.(interface{ Check(key string) error }); is && err == nil {
		err = c.Check(key)
	}
	return err
}

func headOf(v any) *Head {
	return v.(interface{ head() *Head }).head() //nolint:forcetypeassert // each document embeds Head
}

func (f folder) remove(key string) error {
	path, err := f.path(key)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", f.Kind, err)
	}
	return nil
}

func (f folder) keys() (keys []string, err error) {
	if err := f.checkFolder(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list files of kind %s: %w", f.Kind, err)
	}
	for _, e := range entries {
		if key, is := strings.CutSuffix(e.Name(), suffix); is && isKey(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// path returns the file of a key.
func (f folder) path(key string) (string, error) {
	if !isKey(key) {
		return "", fmt.Errorf("key %.80q: want the name of its file without %s", key, suffix)
	}
	return filepath.Join(f.Dir, key+suffix), f.checkFolder()
}

func isKey(key string) bool {
	return dcgm.ConsistsOf(key, 1, maxKey, "_.+@-") && key[0] != '.' && key[0] != '@'
}

func (f folder) checkFolder() error {
	if f.Mode != Private { // a folder of the site's may be a link
		return nil
	}
	return CheckFolder(f.Dir)
}

// CheckFolder refuses a link in a folder's place: what is written and removed here would be
// written and removed where it leads. A missing folder is fine.
func CheckFolder(path string) error {
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is no folder but of mode %s: remove it", path, info.Mode())
	}
	return nil
}

// MakeFolder makes a folder with a mode. Everybody may enter the folders above it. A folder
// that is private must not be a link.
func MakeFolder(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if mode == PrivateDir {
		return CheckFolder(path)
	}
	return nil
}
