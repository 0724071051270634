package reportdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quoin-hpc/quoin/topology"
)

// Reader reads the reports of a folder. It remembers the parsed reports, and parses a report
// again only if its file is another one.
type Reader struct {
	dir    string
	parsed map[string]parsed // by file
	// text is that of the report that is read.
	text [topology.MaxReport + 1]byte
}

// parsed is a report, or the error why there is none.
type parsed struct {
	version version
	node    *topology.Node
	err     error
}

// version tells two files of one name apart.
type version struct {
	inode    uint64
	size     int64
	modified int64 // in nanoseconds
}

// NewReader returns a reader of a folder, such as Folder of a store. It reads nothing.
func NewReader(folder string) *Reader { return &Reader{dir: folder, parsed: map[string]parsed{}} }

// Read calls each for every report, in the order of the nodes' names, with the error of a
// report that cannot be read. The reports are read one after the other, and the text of none is
// kept. The open folder is read, not its path: a folder that is moved away during the reading
// still gives all its reports. A folder that does not exist has none.
func (r *Reader) Read(each func(name string, node *topology.Node, err error)) error {
	folder, err := os.OpenRoot(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		clear(r.parsed)
		return nil
	} else if err != nil {
		return fmt.Errorf("read reports: %w", err)
	}
	defer folder.Close()
	return r.read(folder, each)
}

func (r *Reader) read(folder *os.Root, each func(name string, node *topology.Node, err error)) error {
	files, err := fs.ReadDir(folder.FS(), ".")
	if err != nil {
		return fmt.Errorf("read reports: %w", err)
	}
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), suffix)
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		node, err := r.report(folder, f.Name())
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			continue
		}
		seen[f.Name()] = true
		if err == nil && node.Name != name {
			node, err = nil, fmt.Errorf("%s: report of node %q: want the file named after its node", filepath.Join(r.dir, f.Name()), node.Name)
		}
		each(name, node, err)
	}
	for file := range r.parsed {
		if !seen[file] {
			delete(r.parsed, file)
		}
	}
	return nil
}

// report returns the report in a file. Its version is taken before the reading, so a file that is
// replaced meanwhile is read again.
func (r *Reader) report(folder *os.Root, file string) (*topology.Node, error) {
	info, err := folder.Lstat(file)
	if err != nil {
		return nil, err
	}
	v := versionOf(info)
	if p, ok := r.parsed[file]; ok && p.version == v {
		return p.node, p.err
	}
	text, err := r.readText(folder, file)
	if err != nil {
		return nil, err
	}
	node, err := topology.ParseReport(filepath.Join(r.dir, file), text)
	r.parsed[file] = parsed{v, node, err}
	return node, err
}

// readText reads no more of a file than shows that it is too large for a report.
func (r *Reader) readText(folder *os.Root, file string) ([]byte, error) {
	f, err := folder.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := io.ReadFull(f, r.text[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // both come from ReadFull itself
		err = nil
	}
	return r.text[:n], err
}

func versionOf(info fs.FileInfo) version {
	v := version{size: info.Size(), modified: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		v.inode = stat.Ino
	}
	return v
}
