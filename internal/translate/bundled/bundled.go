// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundled lists the translators that Chartgate comes with.
package bundled

import (
	"github.com/chartgate/chartgate/internal/translate"
	"github.com/chartgate/chartgate/internal/translate/database"
	"github.com/chartgate/chartgate/internal/translate/webapp"
)

// Translators returns the translators by the names that watches.yaml gives them.
func Translators() map[string]translate.Translator {
	return map[string]translate.Translator{
		"database": database.Translator{},
		"webapp":   webapp.Translator{},
	}
}
