package retry

import (
	"regexp"
	"slices"
	"testing"
	"time"
)

func TestNewID(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	var ids []string
	for i := range 1000 {
		id := NewID(time.UnixMilli(1_700_000_000_000 + int64(i)))
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("NewID() = %q", id)
		}
		seen[id] = true
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by time")
	}
}
