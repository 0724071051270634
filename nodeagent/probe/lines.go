package probe

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds one line, in bytes. A report of 16 GPUs with 7 MIG instances each is
// far shorter.
const maxLine = 1 << 20

// readLines calls f with each line without its end. Of a line longer than limit f gets
// the first bytes, which are no report.
func readLines(r io.Reader, limit int, f func([]byte)) {
	b := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := b.ReadSlice('\n')
		if len(line) <= limit {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			if len(line) > 0 {
				f(line[:min(len(line), limit)])
			}
			return
		}
		f(bytes.TrimRight(line[:min(len(line), limit)], "\r\n"))
		line = nil
	}
}
