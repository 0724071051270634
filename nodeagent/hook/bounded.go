package hook

import (
	"fmt"
	"io"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// maxLines is how many lines of one message are printed. A panic's stack needs these.
const maxLines = 40

// bounded prints messages, one with each Write. slurmd keeps what a Prolog prints in its
// log, and a message may quote what a user has chosen: of a long line the middle is left
// out, and of many lines the last.
type bounded struct{ io.Writer }

func (b bounded) Write(message []byte) (int, error) {
	var out strings.Builder
	lines := 0
	for line := range strings.Lines(string(message)) {
		if lines++; lines <= maxLines {
			out.WriteString(shorten(line))
		}
	}
	if lines > maxLines {
		fmt.Fprintf(&out, "quoin-hook: and %d more lines\n", lines-maxLines)
	}
	_, err := io.WriteString(b.Writer, out.String())
	return len(message), err
}

// shorten leaves out the middle of a long line: its begin says what is wrong, and its end
// what is wanted.
func shorten(line string) string {
	const end = topology.MaxMessage / 4
	if len(line) <= topology.MaxMessage {
		return line
	}
	left := len(line) - topology.MaxMessage
	return strings.ToValidUTF8(line[:topology.MaxMessage-end], "") + fmt.Sprintf("[... %d bytes ...]", left) + strings.ToValidUTF8(line[len(line)-end:], "")
}
