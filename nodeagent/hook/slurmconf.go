package hook

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// maxSlurmConf bounds what is read of a slurm.conf, in bytes.
const maxSlurmConf = 1 << 20

// slurmConf is what the hook wants to know of a slurm.conf.
type slurmConf struct {
	taskProlog bool // a program runs before each task
}

// readSlurmConf reads the slurm.conf at a path. Included files are not read. A file that
// cannot be read says no.
func readSlurmConf(path string) slurmConf {
	if path == "" {
		return slurmConf{}
	}
	f, err := atomicfile.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return slurmConf{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return slurmConf{}
	}
	text := make([]byte, min(info.Size(), maxSlurmConf))
	n, _ := io.ReadFull(f, text) // what cannot be read says no
	text = bytes.ToLower(text[:n])
	return slurmConf{confValue(text, "taskprolog") != ""}
}

// confValue looks for a key in a text in lower case. That is quick: the file may name
// every node of the cluster, and each job's start waits for it. As for Slurm, the last
// line counts.
func confValue(text []byte, key string) (value string) {
	for at := 0; ; {
		next := bytes.Index(text[at:], []byte(key))
		if next < 0 {
			return value
		}
		start := at + next
		at = start + len(key)
		line := text[bytes.LastIndexByte(text[:start], '\n')+1 : start]
		after, assigned := bytes.CutPrefix(bytes.TrimLeft(text[at:], " \t"), []byte("="))
		if assigned && bytes.IndexByte(line, '#') < 0 && (len(line) == 0 || isSpace(line[len(line)-1])) {
			value = confWord(after)
		}
	}
}

const maxConfWord = 1 << 10

// confWord is the value after an equal sign of slurm.conf, over lines that end in
// a backslash.
func confWord(after []byte) string {
	text := string(after[:min(len(after), maxConfWord)])
	text = strings.NewReplacer("\\\r\n", "", "\\\n", "").Replace(text)
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimLeft(text, " \t")
	if quoted, is := strings.CutPrefix(text, `"`); is {
		word, _, _ := strings.Cut(quoted, `"`)
		return word
	}
	if end := strings.IndexAny(text, " \t\r#"); end >= 0 {
		return text[:end]
	}
	return text
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }
