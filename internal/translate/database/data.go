// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/translate"
)

var _ translate.Keeper = Translator{}

// Data implements [translate.Keeper]: the volume of each server, the one of the
// backups, and the credentials that were made for the Database. It goes by the
// name and the policy alone. Data is deleted for no other policy than Delete.
func (Translator) Data(obj *unstructured.Unstructured) translate.Data {
	name := obj.GetName()
	policy, _, _ := unstructured.NestedString(obj.Object, "spec", "deletionPolicy")
	return translate.Data{
		Label: v1alpha1.LabelDatabase, Value: name,
		Claim: func(claim string) bool {
			return claim == name+backupSuffix || ofServer(claim, "data-"+name+"-") || ofServer(claim, "data-"+name+standbySuffix+"-")
		},
		Secret: func(secret string) bool { return secret == name+"-credentials" },
		Delete: policy == string(v1alpha1.DatabaseDelete),
	}
}

// ofServer tells whether a claim's name is the prefix and the number of a server.
func ofServer(claim, prefix string) bool {
	number, ok := strings.CutPrefix(claim, prefix)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
