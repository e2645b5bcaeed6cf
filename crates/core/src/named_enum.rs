//! The common form of enums whose variants have fixed names.

/// Declares an enum of plain variants, each with its name, and with `ALL` of them in order.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        pub enum $enum:ident {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$attribute])*
        pub enum $enum {
            $($(#[$doc])* $variant,)*
        }

        impl $enum {
            /// All variants, in their order.
            pub const ALL: [$enum; [$($name),*].len()] = [$($enum::$variant),*];

            /// Returns the fixed name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)*
                }
            }
        }
    };
}
