/** The Responses API: the door of the room. */
export { inputItemsOf, pageOf } from './input-listing.ts';
export { readItems, readWireItems, type WireItem } from './item-reader.ts';
export { readCreateBody } from './request-body.ts';
export { writeResponse } from './response-writer.ts';
export { type RequestConversations, Responses, type WireResponse } from './responses.ts';
export { createResponsesApi } from './responses-api.ts';
export { wireInputs } from './wire-input.ts';
