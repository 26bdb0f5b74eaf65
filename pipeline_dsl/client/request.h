/*
 * request: encodes what a client sends. The bytes are those of wire/message_encode, which is made for clarity: this one is made
 * for clients, which encode every event that they send, and does without a tree and without a call for each field.
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: owner only.
 * Errors: as weir_message_encode_framed(). What is rare (invalid UTF-8, a message with a reply's fields) is left to that.
 */
#ifndef WEIR_CLIENT_REQUEST_H
#define WEIR_CLIENT_REQUEST_H

#include <stdbool.h>

#include "pipeline_dsl/wire/message.h"

/* Appends the message, with its frame header or bare. */
int weir_request_encode(const struct weir_message *message, bool framed, struct weir_buffer *out, struct weir_error *error);

#endif
