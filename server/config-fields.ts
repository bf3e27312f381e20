import * as z from 'zod';

/** A strict object of the configuration, whose error lists the unknown and the known fields. */
export function fields<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const known = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: issue =>
      issue.code === 'unrecognized_keys'
        ? `unknown field ${issue.keys.map(key => JSON.stringify(key)).join(', ')}, expected one of ${known}`
        : undefined,
  });
}
