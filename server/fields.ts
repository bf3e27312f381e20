import * as z from 'zod';
import { unknownFields } from '../protocol/options/refuse-unknown.ts';

/** A strict object of a file, a request or the arguments of a tool, whose error names what was meant. */
export function fields<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.strictObject(shape, unknownFields(shape));
}
