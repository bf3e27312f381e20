/** The Responses API: the door of the room. */

export { readItems, readWireItems, type WireItem } from './item-reader.ts';
export { readCreateBody } from './request-body.ts';
export { writeResponse } from './response-writer.ts';
export { Responses, type WireResponse } from './responses.ts';
export { createResponsesApi } from './responses-api.ts';
export { inputItemsOf, pageOf, wireInputs } from './wire-input.ts';
